"""`python -m bolide.cli`."""

from bolide.cli.entry import main

main()
