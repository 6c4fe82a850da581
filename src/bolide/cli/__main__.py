"""`python -m bolide.cli`."""

from bolide.cli.main import main

main()
