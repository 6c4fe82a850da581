"""Consumption: the processing of pulled messages. There are two kinds, concurrent and orderly."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from msgspec import Struct

from bolide.client.consuming.group_member import GroupMember
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.messages.listener import ListenerCall
from bolide.client.messages.received import ReceivedMessage


class ConsumeSetup(Struct, frozen=True):
    """Shared parameters of both kinds. `call_of` returns the listener of a message, `one_call` the common listener of
    several messages, or None. `concurrency` limits simultaneous calls; `threads` run synchronous listeners.

    After `max_reconsume_times` retries a message becomes a dead letter.
    """

    member: GroupMember
    call_of: Callable[[ReceivedMessage], ListenerCall]
    one_call: Callable[[list[ReceivedMessage]], ListenerCall | None]
    concurrency: int
    max_reconsume_times: int
    threads: Executor


class Consumption(Protocol):
    """Passes pulled messages to listeners."""

    def put(self, process_queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Add messages that were just pulled."""

    async def close(self) -> None:
        """Wait for the running listeners. Unprocessed messages are left to the next assigned consumer."""
