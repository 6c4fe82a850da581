"""`bolide group` and `bolide offset`."""
