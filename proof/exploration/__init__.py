"""Exhaustive exploration of rules without I/O: every order of steps, up to a stated depth."""
