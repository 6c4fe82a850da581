"""Resumes requests: woken waiters, cold requests whose data was loaded, and requests whose peer has read its responses.

Each request first checks in the outbox whether its peer accepts another response. So a peer that does not read receives
no messages in the meantime.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Cold, Outcome, Reply, Waiter
from bolide.broker.core.stats import Durations
from bolide.node.loop.host_protocol import Host
from bolide.node.loop.outbox import Outbox, WaitingRequest
from bolide.remoting.codes import SYSTEM_ERROR
from bolide.remoting.command import Command, make_response
from bolide.remoting.request_routes import NO_CODES

WAITING_MS: Final = 15
"""Maximum time per turn for requests that waited for a turn."""
WOKEN_MS: Final = 1
"""Maximum time for woken requests in the turn in which they woke. Their responses are sent at its end."""
REST_MS: Final = 5
"""Maximum time per later turn for the remaining woken requests."""
MOST_WOKEN: Final = 20_000
"""Maximum number of woken requests that wait for a turn. The peers of further requests are not read until those have
run."""
WOKEN_AT_ONCE: Final = 16
"""Number of woken requests to run before the clock is read."""
COLD_ROUNDS: Final = 8
"""Maximum number of runs of a request whose data left memory again. After that it fails with an error."""


@final
class Resumer:
    """Resumes the requests of one executor, which provides the functions to start, settle and fail a request."""

    def __init__(
        self,
        outbox: Outbox,
        host: Host,
        begin: Callable[[Channel, Command, frozenset[int], int], None],
        settle: Callable[[Channel, Command, Outcome, int], None],
        failed: Callable[[Channel, Command, Exception], None],
        look: Callable[[int, int], None],
        clock: Callable[[], int] | None = None,
        cold_reads: Durations | None = None,
    ) -> None:
        """`clock` returns the current time within a turn. `cold_reads`: durations for which requests waited for data
        that was not in memory."""
        self._outbox: Outbox = outbox
        self._host: Host = host
        self._begin: Callable[[Channel, Command, frozenset[int], int], None] = begin
        self._settle: Callable[[Channel, Command, Outcome, int], None] = settle
        self._failed: Callable[[Channel, Command, Exception], None] = failed
        self._look: Callable[[int, int], None] = look
        self.clock: Callable[[], int] = clock if clock is not None else _no_clock
        self.cold_reads: Durations = cold_reads if cold_reads is not None else Durations()
        self._woken: deque[Waiter] = deque()

    @property
    def woken_left(self) -> int:
        """Number of woken requests that wait for a turn."""
        return len(self._woken)

    def cold(self, channel: Channel, command: Command, cold: Cold, rounds: int) -> None:
        """Load the missing data of a request into memory, then run the request again."""
        if rounds == 0:
            text = "the records asked for could not be kept in memory long enough to be sent: try again"
            self._settle(channel, command, Reply(make_response(command, SYSTEM_ERROR, text)), 0)
            return

        left = rounds if cold.fetched is not None else rounds - 1
        began = self.clock()

        def loaded(now: int) -> None:
            self.cold_reads.add(now - began)
            self._run(channel, command, cold.again, left, now)
            self._host.another_turn()

        self._host.load(cold.extents, loaded, cold.fetched)

    def serve(self, ready: list[Channel]) -> None:
        """Run the waiting requests of these channels within the time limit of a turn. The rest runs first in the next
        turn, before the channel that used up this one."""
        now = self.clock()
        end = now + WAITING_MS
        at = 0
        while at < len(ready):
            channel = ready[at]
            at += 1
            now = self._run_waiting(channel, now, end)
            if now >= end:
                for late in ready[at:]:
                    self._outbox.make_ready(late)
                if channel.alive and channel.waits:
                    self._outbox.make_ready(channel)
                return

    def _run_waiting(self, channel: Channel, now: int, end: int) -> int:
        """Run requests of the channel until none is left, the peer must read, or the time limit is reached. Return the
        current time."""
        while channel.alive:
            waiting = self._outbox.next(channel)
            if waiting is None:
                return now
            if waiting.again is None:
                if waiting.since >= 0:
                    self._look(now, now - waiting.since)
                self._begin(channel, waiting.command, waiting.not_served, now)
            else:
                self._go_on(channel, waiting.command, waiting.again, waiting.rounds, now)
            now = self.clock()
            if now >= end:
                break
        return now

    def woken(self, waiters: list[Waiter], now: int) -> None:
        """Run these requests again. If there are very many, the rest runs in the next turns."""
        if not waiters:
            return
        self._woken.extend(waiters)
        self._run_woken(now, WOKEN_MS)
        while len(self._woken) > MOST_WOKEN:
            waiter = self._woken.pop()
            if waiter.channel.alive:
                waiting = WaitingRequest(waiter.command, NO_CODES, waiter.again, COLD_ROUNDS)
                self._outbox.postpone(waiter.channel, waiting)

    def serve_woken(self, now: int) -> None:
        """Run requests that woke in an earlier turn."""
        self._run_woken(now, REST_MS)

    def _run_woken(self, now: int, most_ms: int) -> None:
        woken = self._woken
        count = 0
        end = 0
        while woken:
            waiter = woken.popleft()
            self._run(waiter.channel, waiter.command, waiter.again, COLD_ROUNDS, now)
            count += 1
            if count % WOKEN_AT_ONCE != 0 and not filters(waiter):
                continue
            late = self.clock()
            if end == 0:
                end = late + most_ms
            elif late >= end:
                return

    def _run(self, channel: Channel, command: Command, again: Callable[[int], Outcome], rounds: int, now: int) -> None:
        if not channel.alive:
            return
        if self._outbox.full(channel):
            self._outbox.wait(channel, WaitingRequest(command, NO_CODES, again, rounds))
            return
        self._go_on(channel, command, again, rounds, now)

    def _go_on(
        self, channel: Channel, command: Command, again: Callable[[int], Outcome], rounds: int, now: int
    ) -> None:
        try:
            outcome = again(now)
        except Exception as error:  # same boundary as in the executor: a fault becomes an error response, not a crash
            self._failed(channel, command, error)
            return
        if isinstance(outcome, Cold):
            self.cold(channel, command, outcome, rounds)
        else:
            self._settle(channel, command, outcome, now)


def filters(waiter: Waiter) -> bool:
    """Return whether the request runs an expression on records, which may take long."""
    return waiter.records is not None and waiter.records.predicate is not None


def _no_clock() -> int:
    return 0
