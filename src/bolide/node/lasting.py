"""Answers to what an operator changes: they leave when the tables are on disk (RocketMQ's ConfigManager.persist).

What clients cause on their way, a topic by a send or a group by a heartbeat, is written soon and waited for by nobody:
a crash before that costs what the next send or heartbeat makes again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

from bolide.broker.channel import Channel
from bolide.broker.outcome import Reply
from bolide.remoting.codes import (
    DELETE_SUBSCRIPTIONGROUP,
    DELETE_TOPIC_IN_BROKER,
    SET_MESSAGE_REQUEST_MODE,
    SYSTEM_ERROR,
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    UPDATE_AND_CREATE_TOPIC,
    UPDATE_AND_CREATE_TOPIC_LIST,
)
from bolide.remoting.command import Command, make_response

LASTING: Final = frozenset(
    {
        UPDATE_AND_CREATE_TOPIC,
        UPDATE_AND_CREATE_TOPIC_LIST,
        DELETE_TOPIC_IN_BROKER,
        UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        DELETE_SUBSCRIPTIONGROUP,
        SET_MESSAGE_REQUEST_MODE,
    }
)
"""The requests whose answers wait, when they change a table."""


@final
class Lasting:
    """The answers that wait; `answer` sends one."""

    def __init__(self, host: Any, answer: Callable[[Channel, Command, Reply], None]) -> None:
        self._host: Any = host
        self._answer: Callable[[Channel, Command, Reply], None] = answer
        self._held: list[tuple[Channel, Command, Reply]] = []

    def hold(self, channel: Channel, command: Command, outcome: Reply) -> None:
        """Answer once the tables that this turn changed are on disk."""
        self._held.append((channel, command, outcome))

    def persist(self, names: set[str]) -> None:
        """Write the tables of this turn, and answer what waits for them then."""
        held, self._held = self._held, []
        self._host.persist(names, partial(self._written, held))

    def _written(self, held: list[tuple[Channel, Command, Reply]], error: str) -> None:
        for channel, command, outcome in held:
            if error:
                remark = f"it is done, but a restart may undo it: {error}"
                outcome = Reply(make_response(command, SYSTEM_ERROR, remark))
            self._answer(channel, command, outcome)
        if held:
            self._host.another_turn()
