"""One peer: its data, its models, what leaves it and how that is protected or attacked. No I/O."""
