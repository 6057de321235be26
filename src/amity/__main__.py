"""`python -m amity`."""

from amity.cli.app import main

main()
