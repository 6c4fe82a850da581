"""Consumption: what becomes of messages once they are pulled. Concurrent and orderly are its two kinds."""

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
    """What both kinds work with: `call_of` finds the listener of a message, `one_call` that of several (None where they
    have different ones), `concurrency` bounds the calls at once, `threads` run plain listeners.

    After `max_reconsume_times` tries a message goes to the dead letters.
    """

    member: GroupMember
    call_of: Callable[[ReceivedMessage], ListenerCall]
    one_call: Callable[[list[ReceivedMessage]], ListenerCall | None]
    concurrency: int
    max_reconsume_times: int
    threads: Executor


class Consumption(Protocol):
    """Takes pulled messages and gives them to listeners."""

    def put(self, process_queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Messages that were just pulled."""

    async def close(self) -> None:
        """Let the listeners that run finish; what none has seen yet is left to the next owner."""
