"""Local training and evaluation on one flat vector of parameters: the hot path."""
