"""The command line `bolide`."""
