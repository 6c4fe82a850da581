"""`python -m bolide`."""

from bolide.cli.main import main

main()
