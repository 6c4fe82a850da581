"""`bolide cluster` and `bolide top`."""
