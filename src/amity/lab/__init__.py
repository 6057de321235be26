"""What you can do with runs: run, compare, sweep, estimate, keep and export."""
