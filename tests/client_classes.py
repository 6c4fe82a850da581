"""The classes of clients, and an object of each that is not started."""

from __future__ import annotations

import inspect
from typing import Any, Final

from bolide import client
from bolide.client import blocking
from bolide.client.instance.unclosed import Closeable

NATIVE: Final[list[type[Any]]] = [
    kind for kind in map(vars(client).get, client.__all__) if isinstance(kind, type) and issubclass(kind, Closeable)
]
"""Producers and consumers of `bolide.client`."""
BLOCKING: Final[list[type[Any]]] = [
    kind for kind in vars(blocking).values() if isinstance(kind, type) and kind.__module__ == blocking.__name__
]


class Payments:
    """A listener that is never called."""

    def execute(self, message: client.Message, argument: Any) -> client.TransactionState:
        return client.TransactionState.COMMIT

    def check(self, message: client.ReceivedMessage) -> client.TransactionState:
        return client.TransactionState.COMMIT


def not_started(kind: type[Any], **more: Any) -> Any:
    """Create a client. It connects at its start."""
    given = {"group": "G", "namesrv": "a:1", "listener": Payments()}
    return kind(**{name: given[name] for name in inspect.signature(kind).parameters if name in given}, **more)


def name_of(kind: type[Any]) -> str:
    """Return the name of a class with its module, for ids of tests."""
    return f"{kind.__module__}.{kind.__name__}"
