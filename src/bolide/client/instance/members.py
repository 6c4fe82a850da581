"""What a client instance needs of the producers and consumers that share it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from bolide.remoting.command import Command


class ProducerMember(Protocol):
    """What the instance needs of a producer."""

    group: str
    asked_by_brokers: bool
    """Whether any broker may have a question to the group, such as how a transaction ended."""

    def topics(self) -> set[str]:
        """Topics whose routes must stay fresh."""

    def topic_missing(self, topic: str) -> None:
        """No name server knows one of them now."""


class ConsumerMember(Protocol):
    """What the instance needs of a consumer."""

    group: str

    def topics(self) -> set[str]:
        """Topics whose routes must stay fresh."""

    def heartbeat(self) -> dict[str, Any]:
        """This consumer's part of the heartbeat (ConsumerData)."""

    def rebalance_soon(self) -> None:
        """The group has changed: share the queues out again now."""

    def serve(self, command: Command) -> Command | Coroutine[Any, Any, Command | None] | None:
        """Answer a request a broker makes of this group's consumer; None for no answer."""
