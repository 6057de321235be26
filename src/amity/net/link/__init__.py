"""Links between peers."""
