"""The command line."""

from amity.cli.app import main, run

__all__ = ["main", "run"]
