"""Interfaces of the producers and consumers that share a client instance."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from bolide.remoting.command import Command


class ProducerMember(Protocol):
    """Interface of a producer for the client instance."""

    group: str
    check_transaction: Callable[[str, Command], bool] | None
    """Called with a broker's address and its request to check a transaction. Returns False if the request is for
    another group. None if the producer does not send transactional messages."""

    def topics(self) -> set[str]:
        """Return the topics whose routes must be refreshed."""

    def topic_missing(self, topic: str) -> None:
        """Called when no name server has the route of one of the topics."""


class ConsumerMember(Protocol):
    """Interface of a consumer for the client instance."""

    group: str

    def topics(self) -> set[str]:
        """Return the topics whose routes must be refreshed."""

    def heartbeat(self) -> dict[str, Any]:
        """Return this consumer's part of the heartbeat (ConsumerData)."""

    def rebalance_soon(self) -> None:
        """Called when the members of the group have changed: rebalance immediately."""

    def serve(self, command: Command) -> Command | Coroutine[Any, Any, Command | None] | None:
        """Process a broker's request to this group's consumer. Return the response, or None for no response."""
