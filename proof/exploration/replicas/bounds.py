"""How much may happen in an exploration."""

from __future__ import annotations

from msgspec import Struct


class Bounds(Struct, frozen=True):
    """Within these every order of moves is tried."""

    depth: int = 9
    """Moves from the first state."""
    sends: int = 1
    """Records that clients send."""
    faults: int = 3
    """Kills, replicas that the controller hears no more of, and changes of the controller."""
    losses: int = 1
    """Machines that return with less."""
    late: int = 1
    """Questions of a master for another set that arrive at the controller late."""
