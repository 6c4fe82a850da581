"""`bolide topic`."""
