"""The command line."""

from amity.cli.app import main

__all__ = ["main"]
