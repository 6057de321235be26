"""`python -m amity`."""

from amity.cli import main

main()
