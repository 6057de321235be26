"""`python -m amity`."""

from amity.cli.app import run

run()
