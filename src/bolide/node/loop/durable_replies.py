"""Delays responses until the changed tables are on disk (RocketMQ's ConfigManager.persist).

This applies to changes by operators and by clients: after a crash, a message whose send created the topic is served
only if the table has that topic. Pulls do not wait: a group that a pull created is created again by the next pull.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import final

from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.node.loop.host_protocol import Host
from bolide.node.loop.parked import ParkedReply, TableWrite
from bolide.remoting.codec import Response
from bolide.remoting.codes import SYSTEM_ERROR
from bolide.remoting.command import Command, make_response


@final
class DurableReplies:
    """Delayed responses. `answer` sends a response. `leave` sends one whose record is already in the log."""

    def __init__(
        self,
        host: Host,
        effects: Effects,
        answer: Callable[[Channel, Command, Response], None],
        leave: Callable[[ParkedReply], None],
    ) -> None:
        self._host: Host = host
        self._effects: Effects = effects
        self._answer: Callable[[Channel, Command, Response], None] = answer
        self._leave: Callable[[ParkedReply], None] = leave
        self._held: list[tuple[Channel, Command, Response]] = []
        self._write: TableWrite | None = None
        self.count: int = 0
        """Number of turns whose tables are being written."""

    def hold(self, channel: Channel, command: Command, response: Response) -> None:
        """Hold a response until the tables changed in this turn are on disk."""
        self._held.append((channel, command, response))

    def this_turn(self) -> TableWrite:
        """Return the table write of this turn, for a response that also waits for the log."""
        if self._write is None:
            self._write = TableWrite()
        return self._write

    def persist(self, names: set[str]) -> None:
        """Write the tables of this turn, then send the responses that wait for them."""
        held, self._held = self._held, []
        write, self._write = self._write, None
        self.count += 1
        changes = {name: self._effects.changes(name) for name in names}
        self._host.persist(names, partial(self._written, held, write, changes))

    def _written(
        self,
        held: list[tuple[Channel, Command, Response]],
        write: TableWrite | None,
        changes: dict[str, int],
        error: str,
    ) -> None:
        self.count -= 1
        if not error:
            for name, count in changes.items():
                self._effects.saved(name, count)
        for channel, command, response in held:
            if error:
                remark = f"it is done, but a restart may undo it: {error}"
                response = make_response(command, SYSTEM_ERROR, remark)
            self._answer(channel, command, response)
        confirmed: list[ParkedReply] = []
        if write is not None:
            write.done = True
            write.error = error
            confirmed, write.confirmed = write.confirmed, confirmed
            for entry in confirmed:
                self._leave(entry)
        if held or confirmed:
            self._host.another_turn()
