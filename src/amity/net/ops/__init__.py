"""What an operator runs: a peer, a relay, a swarm, checks and reports."""
