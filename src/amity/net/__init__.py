"""Peers as processes of their own: who they are, whom they trust, and how they talk."""
