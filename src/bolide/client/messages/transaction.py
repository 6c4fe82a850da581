"""What a transaction is to its user: a listener that runs and remembers it, and how it ended."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Protocol

from bolide.client.messages.message import Message
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.send_result import NamedNumber, SendResult
from bolide.layout.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK


class TransactionState(NamedNumber):
    """How a local transaction ended. UNKNOWN leaves the message where it is: the broker will ask again."""

    UNKNOWN = TRANSACTION_NONE
    """The broker asks again later."""
    COMMIT = TRANSACTION_COMMIT
    """Deliver the message."""
    ROLLBACK = TRANSACTION_ROLLBACK
    """Drop the message."""


class TransactionListener(Protocol):
    """The user's side of a transaction. Both methods are async, or plain (then they run in a thread)."""

    def execute(self, message: Message, argument: Any, /) -> TransactionState | Awaitable[TransactionState]:
        """Run the local transaction for a message that is stored but not visible; return a `TransactionState`.

        An exception counts as UNKNOWN, and so does any other value, None included: the result's `error` says so.
        """

    def check(self, message: ReceivedMessage, /) -> TransactionState | Awaitable[TransactionState]:
        """Say how the local transaction of this message ended; return a `TransactionState`. May be asked repeatedly."""


@dataclass(slots=True)
class TransactionResult:
    """Where the half message is stored and what the broker was told; `error` is what `execute` raised, or why
    what it returned is not a state."""

    sent: SendResult
    state: TransactionState
    error: BaseException | None = None


def state_of(outcome: Any) -> TransactionState:
    """What a listener returned, as a state. Raises `TypeError` for anything else."""
    if not isinstance(outcome, TransactionState):
        raise TypeError(f"the listener returned {outcome!r}: return TransactionState.COMMIT, ROLLBACK or UNKNOWN")
    return outcome
