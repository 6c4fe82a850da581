"""What Bolide offers to tests, its own and its users': a broker in the process, doubles and checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bolide.testing.broker import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:
    """`bolide.testing.Broker` without importing a broker for everyone who only wants a double."""
    if name == "Broker":
        from bolide.testing.broker import Broker

        return Broker
    raise AttributeError(f"module 'bolide.testing' has no attribute {name!r}")
