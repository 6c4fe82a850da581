"""Requests that are run once more: held pulls that woke, cold ones whose bytes were loaded, those whose peer has read.

Whatever runs again first asks the outbox whether its peer can take another answer, so a peer that does not read is
not given the messages that arrive meanwhile. Compiled by mypyc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from bolide.broker.channel import Channel
from bolide.broker.outcome import Cold, HeldPull, Outcome, Reply
from bolide.node.outbox import Outbox, Waiting
from bolide.remoting.codes import SYSTEM_ERROR
from bolide.remoting.command import Command, make_response

ALL_SERVED: Final[frozenset[int]] = frozenset()
COLD_ROUNDS: Final = 8
"""Times a request is run again because its bytes left memory meanwhile; then it is answered with an error."""


@final
class Reruns:
    """Of one executor, which lends its own ways of beginning, settling and failing a request."""

    def __init__(
        self,
        outbox: Outbox,
        host: Any,
        begin: Callable[[Channel, Command, frozenset[int], int], None],
        settle: Callable[[Channel, Command, Outcome, int], None],
        failed: Callable[[Channel, Command, Exception], None],
    ) -> None:
        self._outbox: Outbox = outbox
        self._host: Any = host
        self._begin: Any = begin
        self._settle: Any = settle
        self._failed: Any = failed

    def held(self, held: HeldPull, now: int) -> None:
        """Run a held pull once more, with holding off."""
        self._run(held.channel, held.command, held.again, COLD_ROUNDS, now)

    def cold(self, channel: Channel, command: Command, cold: Cold, rounds: int) -> None:
        """Have what a pull needs read into memory, then run it again."""
        if rounds == 0:
            text = "the records asked for could not be kept in memory long enough to be sent: try again"
            self._settle(channel, command, Reply(make_response(command, SYSTEM_ERROR, text)), 0)
            return

        def loaded(now: int) -> None:
            self._run(channel, command, cold.again, rounds - 1, now)
            self._host.another_turn()

        self._host.load(cold.extents, loaded)

    def caught_up(self, channel: Channel, now: int) -> None:
        """Run what waited for this peer to read, until it must read again."""
        while channel.alive:
            waiting = self._outbox.next(channel)
            if waiting is None:
                return
            if waiting.again is None:
                self._begin(channel, waiting.command, waiting.not_served, now)
            else:
                self._go_on(channel, waiting.command, waiting.again, waiting.rounds, now)

    def _run(self, channel: Channel, command: Command, again: Callable[[int], Outcome], rounds: int, now: int) -> None:
        if not channel.alive:
            return
        if self._outbox.full(channel):
            self._outbox.wait(channel, Waiting(command, ALL_SERVED, again, rounds))
            return
        self._go_on(channel, command, again, rounds, now)

    def _go_on(
        self, channel: Channel, command: Command, again: Callable[[int], Outcome], rounds: int, now: int
    ) -> None:
        try:
            outcome = again(now)
        except Exception as error:  # the same boundary as the executor's: a fault is an answer, not a crash
            self._failed(channel, command, error)
            return
        if isinstance(outcome, Cold):
            self.cold(channel, command, outcome, rounds)
        else:
            self._settle(channel, command, outcome, now)
