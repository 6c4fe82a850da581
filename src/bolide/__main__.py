"""`python -m bolide`."""

from bolide.cli.entry import main

main()
