"""`bolide message`, `produce` and `consume`."""
