"""`bolide store`."""
