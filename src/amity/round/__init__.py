"""One round, the same in the simulator and between real peers."""
