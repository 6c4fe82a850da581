"""`bolide user` and `bolide policy`."""
