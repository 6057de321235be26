"""A model that was taken out of a run: its file, what it says of new examples, how to ask it."""
