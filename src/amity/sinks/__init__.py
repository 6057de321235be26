"""Where the events of a run go."""
