"""Transactions of users: the listener that executes and checks them, and their results."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Protocol

from bolide.client.messages.message import Message
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.send_result import NamedNumber, SendResult
from bolide.layout.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK


class TransactionState(NamedNumber):
    """Outcome of a local transaction. After UNKNOWN the message stays pending, and the broker checks again."""

    UNKNOWN = TRANSACTION_NONE
    """The broker checks again later."""
    COMMIT = TRANSACTION_COMMIT
    """Deliver the message."""
    ROLLBACK = TRANSACTION_ROLLBACK
    """Drop the message."""


class TransactionListener(Protocol):
    """The user's part of a transaction. Both methods are async, or synchronous (then they run in a thread)."""

    def execute(self, message: Message, argument: Any, /) -> TransactionState | Awaitable[TransactionState]:
        """Run the local transaction for a message that is stored but not visible; return a `TransactionState`.

        An exception or any other value, including None, is treated as UNKNOWN; the result's `error` describes it.
        """

    def check(self, message: ReceivedMessage, /) -> TransactionState | Awaitable[TransactionState]:
        """Return how the local transaction of this message ended. May be called repeatedly."""


@dataclass(slots=True)
class TransactionResult:
    """Result of the half message's send and the state sent to the broker. `error` is the exception of `execute`, or a
    description of an invalid return value."""

    sent: SendResult
    state: TransactionState
    error: BaseException | None = None


def state_of(outcome: Any) -> TransactionState:
    """Check a listener's return value. Raises `TypeError` unless it is a state."""
    if not isinstance(outcome, TransactionState):
        raise TypeError(f"the listener returned {outcome!r}: return TransactionState.COMMIT, ROLLBACK or UNKNOWN")
    return outcome
