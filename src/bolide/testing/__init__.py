"""Tools for tests of Bolide, and of programs that use it: a broker in the process, test doubles and checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bolide.testing.broker import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:
    """Import `bolide.testing.Broker` at its first use."""
    if name == "Broker":
        from bolide.testing.broker import Broker

        return Broker
    raise AttributeError(f"module 'bolide.testing' has no attribute {name!r}")
