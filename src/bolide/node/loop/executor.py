"""Applies outcomes and effects: the only place where decisions of services become bytes, files and timers.

There is one executor per event loop. It first handles all requests of a turn. Then `end_of_turn` runs once: one write
to the log, the flush, dispatch, wake-ups, the responses whose records are confirmed, and one write per connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, assert_never, final

from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects, SendAway
from bolide.broker.core.outcome import Ask, Cold, Hold, Nothing, Outcome, Parked, Reply, Waiter
from bolide.broker.core.service import Service
from bolide.broker.core.stats import BrokerStats
from bolide.broker.core.wait_table import WaitTable
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import remark_of, response_code
from bolide.broker.send.plain_sends import PlainSends, Taken
from bolide.broker.send.send import SendService
from bolide.errors import BolideError, PeerError
from bolide.node.loop.durable_replies import DurableReplies
from bolide.node.loop.host_protocol import Host, Replication
from bolide.node.loop.log_turn import LogTurn
from bolide.node.loop.outbox import Outbox, WaitingRequest
from bolide.node.loop.parked import NO_DEADLINE, ParkedReplies, ParkedReply, TableWrite
from bolide.node.loop.pending_requests import PendingRequest, PendingRequests
from bolide.node.loop.resumer import COLD_ROUNDS, Resumer
from bolide.node.loop.send_gate import SendGate, busy, later
from bolide.node.loop.services import Services
from bolide.remoting import codes
from bolide.remoting.codec import EncodedResponses, Response
from bolide.remoting.command import Command, make_response
from bolide.remoting.connection import begins_whole
from bolide.remoting.request_routes import ORDINARY, AtMaster
from bolide.remoting.unsupported import unsupported
from bolide.store.message_store import MessageStore

PLAIN_SENDS: Final = (codes.SEND_MESSAGE_V2, codes.SEND_BATCH_MESSAGE, codes.SEND_MESSAGE)
"""Send codes whose simple requests may use the fast path."""
SHORT_SWEEP_MS: Final = 1000
"""Interval of the sweep of waiters if longPollingEnable is off."""


class ExecutorLinks(NamedTuple):
    """The optional parts of a node that an executor calls."""

    replication: Replication | None = None
    """Replication of the log, or None for a standalone broker."""
    admits: Callable[[Channel, Command], Command | None] | None = None
    """Returns the error response to a denied request, or None to allow it. Unset if all requests are allowed."""
    send_away: SendAway | None = None
    """Sends a message to another broker set. None without acting masters."""
    sends: SendService | None = None
    """Stores simple sends by the fast path, if it is available and no admission control or hook needs whole
    requests."""


@final
class Executor:
    """See the module. The route of a request code defines how its requests are handled (remoting/request_routes.py)."""

    def __init__(
        self,
        services: Services,
        effects: Effects,
        host: Host,
        stats: BrokerStats,
        store: MessageStore,
        waiters: WaitTable,
        options: BrokerOptions,
        links: ExecutorLinks | None = None,
    ) -> None:
        links = links if links is not None else ExecutorLinks()
        self._services: Services = services
        self._handlers: dict[int, Callable[[Channel, Command, int], Outcome]] = services.handlers
        self._sends: frozenset[int] = services.sends
        self._pulls: frozenset[int] = services.pulls
        self._not_durable: frozenset[int] = services.not_durable
        self._ordinary: dict[int, frozenset[int]] = services.ordinary
        self._refused: dict[int, AtMaster] = services.refused
        self.light: frozenset[int] = services.light
        """Codes whose requests take microseconds."""
        self._effects: Effects = effects
        self._host: Host = host
        self.stats: BrokerStats = stats
        self._store: MessageStore = store
        self._waiters: WaitTable = waiters
        self._flush_timeout_ms: int = options.send_patience
        self._sweep_ms: int = options.pull.hold_sweep_interval if options.pull.long_polling_enable else SHORT_SWEEP_MS
        self._next_sweep: int = 0
        self._parked: ParkedReplies = ParkedReplies()
        self.gate: SendGate = SendGate(options, self._parked, options.send_patience)
        self.outbox: Outbox = Outbox(host, options.connections.client_write_buffer_high)
        self._log: LogTurn = LogTurn(
            store, host, stats, self._parked, self.outbox, options.send_patience, links.replication
        )
        self._resumer: Resumer = Resumer(
            self.outbox, host, self._begin, self.settle, self._handler_failed, self.gate.look, self._read_clock,
            stats.cold_reads,
        )  # fmt: skip
        self._clock: Callable[[], int] | None = None
        self._admits: Callable[[Channel, Command], Command | None] | None = links.admits
        self.plain: PlainSends | None = None
        """Fast path for simple sends, if available."""
        self._own_sends: dict[int, Callable[[Channel, Command, int], Outcome]] = {}
        sends = links.sends
        if sends is not None and links.admits is None:  # a request that admission has not checked must not be stored
            self._own_sends = {code: self._handlers[code] for code in PLAIN_SENDS}
            if all(self._own_sends[row.code] == row.handler for row in sends.routes()):
                self.plain = sends.plain_sends()
        self._send_away: SendAway | None = links.send_away
        self._pending: PendingRequests = PendingRequests()
        self._durable: DurableReplies = DurableReplies(host, effects, self._send, self._log.confirmed)
        self._persisted: int = 0
        """`effects.persisted` when the current handler started: any increase is caused by that handler."""
        self._tick_failed: Callable[[Service, BaseException], None] = self._service_failed

    def set_clock(self, clock: Callable[[], int]) -> None:
        """Set the clock that limits the time of a turn. Without a clock, turns are not limited."""
        self._clock = clock

    def _read_clock(self) -> int:
        return self._clock() if self._clock is not None else 0

    @property
    def replication(self) -> Replication | None:
        """Replication of the log, or None for a standalone broker."""
        return self._log.replication

    @replication.setter
    def replication(self, replication: Replication | None) -> None:
        self._log.replication = replication

    # ---- requests

    def handle(self, channel: Channel, command: Command, not_served: frozenset[int], now: int) -> None:
        """Run a received command. `not_served`: request codes that this port does not serve."""
        if command.is_response:
            self._answered(channel, command, now)
        elif self.outbox.full(channel):
            self.outbox.wait(channel, WaitingRequest(command, not_served, None, 0))
        else:
            self._begin(channel, command, not_served, now)

    def take_sends(self, channel: Channel, data: bytes, at: int, enough: int, now: int) -> Taken | None:
        """Store the simple sends among these frames, from byte `at` until their weight reaches `enough`.

        Return None if the first frame is not a simple send. The caller passes the remaining frames to `handle`.
        """
        plain = self._open_to_plain(channel)
        if plain is None:
            return None
        taken = plain.take(channel, data, at, enough, now)
        if taken is not None:
            self._answer_later(channel, taken, now)
        elif at == 0 and begins_whole(data):  # the start of a frame may be the start of a simple send
            channel.sends = False
        return taken

    def take_long_send(self, channel: Channel, head: bytes, body: bytes, now: int) -> Taken | None:
        """Like `take_sends`, for one frame that is in two parts."""
        plain = self._open_to_plain(channel)
        taken = None if plain is None else plain.take_long(channel, head, body, now)
        if taken is not None:
            channel.sends = True
            self._answer_later(channel, taken, now)
        return taken

    def _open_to_plain(self, channel: Channel) -> PlainSends | None:
        """Return the fast path if simple sends of a channel may use it now."""
        if self.plain is None or self.gate.busy or self.outbox.full(channel) or not self._unhooked():
            return None
        return self.plain

    def _answer_later(self, channel: Channel, taken: Taken, now: int) -> None:
        """Respond to simple sends when the log is confirmed."""
        self.stats.requests += taken.count
        self._services.touched = True
        entry = ParkedReply(channel, EncodedResponses(taken.answers), taken.end, now + self._flush_timeout_ms)
        entry.first_end = taken.first_end
        entry.sends = taken.count
        self._parked.add(entry, True)

    def _unhooked(self) -> bool:
        """Return whether no hook wraps the send handlers. A topic may select a hook at any time."""
        handlers = self._handlers
        return all(handlers.get(code) is self._own_sends.get(code) for code in PLAIN_SENDS)

    def postpone(self, channel: Channel, command: Command, not_served: frozenset[int], since: int, now: int) -> None:
        """Run a command in a later turn, because this turn has used its time."""
        if command.is_response:
            self._answered(channel, command, now)
        else:
            self.outbox.postpone(channel, WaitingRequest(command, not_served, None, 0, since))

    def _begin(self, channel: Channel, command: Command, not_served: frozenset[int], now: int) -> None:
        self.stats.requests += 1
        self._services.touched = True
        code = command.code
        admits = self._admits
        if admits is not None:
            refusal = admits(channel, command)
            if refusal is not None:
                self._send(channel, command, refusal)
                return
        handler = self._handlers.get(code)
        if handler is None or code in not_served:
            self._send(channel, command, unsupported(command))
            return
        if self._refused and code in self._refused:
            at_master = self._refused[code]
            self._send(channel, command, make_response(command, at_master.code, at_master.remark))
            return
        if self.gate.busy and code in self._sends:
            self._send(channel, command, busy(command, self.gate.busy))
            return
        if self.outbox.unread > self.gate.max_unread and code in self._pulls:
            self._send(channel, command, later(command, f"peers have left {self.outbox.unread} bytes unread"))
            return
        self._persisted = self._effects.persisted
        try:
            outcome = handler(channel, command, now)
        except Exception as error:  # the only boundary: a fault in a handler becomes an error response, not a crash
            self._handler_failed(channel, command, error)
            return
        self.settle(channel, command, outcome, now)

    def settle(self, channel: Channel, command: Command, outcome: Outcome, now: int) -> None:
        """Apply the outcome of a handler. If the handler changed a table, its response also waits for that write."""
        tables: TableWrite | None = None
        if self._effects.persisted != self._persisted:
            self._persisted = self._effects.persisted
            if command.code not in self._not_durable:
                if isinstance(outcome, Reply):
                    self._durable.hold(channel, command, outcome.response)
                    return
                tables = self._durable.this_turn()
        if isinstance(outcome, Parked):
            self._park(channel, command, outcome, now, tables)
        elif isinstance(outcome, Reply):
            self._send(channel, command, outcome.response)
        elif isinstance(outcome, Hold):
            self._hold(channel, command, outcome.waiter)
        elif isinstance(outcome, Cold):
            self._resumer.cold(channel, command, outcome, COLD_ROUNDS)
        elif isinstance(outcome, Ask):
            self._ask(channel, command, outcome, now)
        elif isinstance(outcome, Nothing):
            return
        else:
            assert_never(outcome)

    def _send(self, channel: Channel, request: Command, response: Response) -> None:
        if response.code not in self._ordinary.get(request.code, ORDINARY):
            self._host.refused(channel, request, response)
        if not request.is_oneway:
            self.outbox.send(channel, response)

    def _park(self, channel: Channel, command: Command, parked: Parked, now: int, tables: TableWrite | None) -> None:
        if command.is_oneway:
            return
        deadline = now + self._flush_timeout_ms
        channel.sends = True
        response = parked.reply.response
        self._parked.add(ParkedReply(channel, response, parked.offset, deadline, parked.after, tables), parked.wait)

    def _hold(self, channel: Channel, command: Command, waiter: Waiter) -> None:
        if channel.alive and not self._waiters.add(waiter):
            self._send(channel, command, later(command, f"{self._waiters.count} pulls are held, maxHeldRequests"))

    # ---- requests of the broker to clients

    def _ask(self, channel: Channel, command: Command, ask: Ask, now: int) -> None:
        asked = PendingRequest(channel, command, ask, now + ask.timeout)
        if not ask.channel.alive:
            self._finish(asked, None, now)
            return
        self._pending.add(asked)
        self.outbox.send(ask.channel, ask.command)

    def _answered(self, channel: Channel, response: Command, now: int) -> None:
        asked = self._pending.answered(channel, response)
        if asked is not None:
            self._finish(asked, response, now)

    def _finish(self, asked: PendingRequest, response: Command | None, now: int) -> None:
        try:
            outcome = asked.ask.then(response, now)
        except Exception as error:  # same boundary as `handle`
            self._handler_failed(asked.channel, asked.command, error)
            return
        self.settle(asked.channel, asked.command, outcome, now)

    # ---- faults

    def _handler_failed(self, channel: Channel, command: Command, error: Exception) -> None:
        self.stats.handler_errors += 1
        code = response_code(error)
        response = make_response(command, code, remark_of(error))
        if code == codes.SYSTEM_ERROR and not isinstance(error, PeerError):
            self._host.failed(f"request {command.code} of {channel.remote}", error)
            if not command.is_oneway:
                self.outbox.send(channel, response)
        else:
            self._send(channel, command, response)
        if isinstance(error, BolideError) and error.closes_connection:
            self._host.close(channel)

    def _service_failed(self, service: Service, error: BaseException) -> None:
        self._host.failed(f"tick of {type(service).__name__}", error)

    # ---- the end of a turn

    def end_of_turn(self, now: int) -> None:
        """End the turn: write, flush, dispatch, wake and respond, once for all requests of the turn."""
        ready = self.outbox.take_ready()
        if ready:
            self._resumer.serve(ready)
        if self._resumer.woken_left:
            self._resumer.serve_woken(now)
        if not self._log.failed:
            self._log_turn(now)
        if self._effects.pending:
            self._carry_out(now)
        self.outbox.write_all()
        if self._resumer.woken_left:
            self._host.another_turn()

    def _log_turn(self, now: int) -> None:
        log = self._log
        arrivals = log.advance(now)
        if arrivals is None:
            return
        if arrivals:
            self._services.touched = True
            if self._waiters.count:
                self._resumer.woken(self._waiters.arrived(arrivals), now)
            for hook in self._services.arrived_hooks:
                hook(arrivals, now)
        log.answer(now)

    def flushed(self, target: int, now: int) -> None:
        """Called when the flush thread has synced the log up to `target`."""
        if not self._log.failed:
            self._store.flushed(target)
            self.end_of_turn(now)

    def flush_failed(self, error: BaseException) -> None:
        """Called when a sync of the log failed, so its pages cannot be trusted. Fails all pending sends and stops the
        broker."""
        self._log.flush_failed(error)

    def refuse_parked(self, text: str) -> None:
        """Fail the pending sends, because this broker is no longer their master. Its disk has not failed."""
        self._log.refuse_parked(text, failed=False)

    # ---- effects, time, connections

    def _carry_out(self, now: int) -> None:
        noted = self._effects.take()
        self._persisted = self._effects.persisted  # These writes start now, so later responses must not wait for them.
        self._services.touched = True
        for channel, command in noted.sends:
            if channel.alive:
                command.opaque = self._pending.next_opaque()
                self.outbox.send(channel, command)
        for key in noted.releases:
            self._resumer.woken(self._waiters.release(key), now)
        for channel in noted.closes:
            self._host.close(channel)
        if noted.persists:
            self._durable.persist(noted.persists)
        if noted.registrations:
            self._host.register(noted.registrations)
        for extents, then in noted.loads:
            self._host.load(extents, then)
        for job, done in noted.jobs:
            self._host.run(job, done)
        for message, told in noted.aways:
            if self._send_away is not None:
                self._send_away(message, told)
        for service in noted.wakes:
            self._services.wake(service, now)

    def next_due(self) -> int:
        """Return when to call `tick` next (ms since the epoch), or NO_DEADLINE."""
        at = NO_DEADLINE
        due = self._services.next_due()
        if due is not None:
            at = due
        waiters = self._waiters
        if waiters.count:
            deadline = waiters.next_deadline()
            if deadline is not None and deadline < at:
                at = deadline
            if self._next_sweep < at:
                at = self._next_sweep
        return self._pending.next_deadline(min(at, self._parked.next_deadline()))

    def tick(self, now: int) -> None:
        """Run all due work. The caller then ends the turn."""
        self._services.tick(now, self._tick_failed)
        self._persisted = self._effects.persisted  # no response waits for changes made by a tick
        waiters = self._waiters
        if waiters.count:
            self._resumer.woken(waiters.expired(now), now)
            if now >= self._next_sweep:
                self._next_sweep = now + self._sweep_ms
                self._resumer.woken(waiters.behind(self._store.max_queue_offset), now)
        self._log.answer_late(now)
        for asked in self._pending.take_late(now):
            self._finish(asked, None, now)

    def closed(self, channel: Channel, now: int) -> None:
        """Called when a connection has closed: drop its waiters, notify the services, and complete requests that wait
        for its response."""
        channel.alive = False
        self.outbox.closed(channel)
        self._waiters.drop(channel)
        for asked in self._pending.take_of(channel):
            self._finish(asked, None, now)
        for hook in self._services.closed_hooks:
            try:
                hook(channel, now)
            # a fault in one service must not leave the channel in the tables of other services
            except Exception as error:
                self._host.failed(f"close of {channel.remote}", error)
        self._host.another_turn()

    @property
    def parked_count(self) -> int:
        """Number of responses that wait for the log."""
        return self._parked.count

    @property
    def unanswered(self) -> int:
        """Number of responses that wait for the log, table writes in progress, and requests that wait for a turn."""
        return self._parked.count + self._durable.count + self.outbox.for_next_turn + self._resumer.woken_left
