"""The services of one daemon: the table of its request codes, one heap of due times, the hooks each of them has.

A new service is one more element of the list given to `Services`. Which hooks it overrides is looked up once here, so
a turn pays nothing for the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from bolide.broker.core.channel import Channel
from bolide.broker.core.options import BrokerOptions
from bolide.broker.core.outcome import Handler, Outcome
from bolide.broker.core.role import Role
from bolide.broker.core.service import Service, Table
from bolide.remoting import codes
from bolide.remoting.request_routes import AtMaster, Kind, RequestTable
from bolide.store.background.arrival import Arrival

BrokerTable: TypeAlias = RequestTable[Channel, Outcome]
TICK_BUDGET: Final = 1000
"""Records a tick may handle before the loop gets its turn back."""
TICKS_MS: Final = 15
"""How long all ticks of one turn may take; the rest run in the next."""
TOO_FEW: Final = AtMaster(codes.SYSTEM_ERROR, "in-sync replicas not enough")
"""What a master answers what it would store with fewer replicas in sync than minInSyncReplicas."""
FAILED_PAUSE_MS: Final = 1000
REVIEW_MS: Final = 50
"""After turns in which something happened every service is asked again when it is due, at most this often: what one
service does may give another something to do (a pull commits an offset, which is to be written)."""


@final
class Timed:
    """One service that wants ticks, and when it wants the next."""

    def __init__(self, service: Service) -> None:
        self.service: Service = service
        self.at: int | None = None
        self.not_before: int = 0
        """When the last tick was; one that failed is not tried again before this, which is later."""


@final
class Services:
    """All services of a broker, looked up once at start.

    `handlers` maps each request code to what answers it. The sets of codes are those for which a rule of the rows
    (remoting/request_routes.py) holds.
    """

    def __init__(self, services: Sequence[Service]) -> None:
        self.services: list[Service] = list(services)
        self.table: BrokerTable = RequestTable()
        for service in services:
            self.table.add(type(service).__name__, service.routes())
        self.handlers: dict[int, Handler] = self.table.handlers
        self.sends: frozenset[int] = self.table.of_kind(Kind.SEND)
        self.pulls: frozenset[int] = self.table.of_kind(Kind.PULL)
        self.not_durable: frozenset[int] = self.table.codes(lambda row: not row.durable)
        self.not_on_fast_port: frozenset[int] = self.table.codes(lambda row: not row.fast_port)
        self.light: frozenset[int] = self.table.codes(lambda row: row.light)
        self.ordinary: dict[int, frozenset[int]] = self.table.ordinary()
        self._need_replicas: frozenset[int] = self.table.codes(
            lambda row: row.kind is Kind.SEND if row.needs_replicas is None else row.needs_replicas
        )
        self._at_master: dict[int, AtMaster] = {
            code: row.at_master for code, row in self.table.rows.items() if row.at_master is not None
        }
        self.refused: dict[int, AtMaster] = {}
        """Codes that the broker refuses in its role; nothing on a master."""
        self._role_hooks: list[Callable[[Role, int], None]] = [
            service.role_changed for service in services if type(service).role_changed is not Service.role_changed
        ]
        self.closed_hooks: list[Callable[[Channel, int], None]] = [
            service.channel_closed for service in services if type(service).channel_closed is not Service.channel_closed
        ]
        self.arrived_hooks: list[Callable[[list[Arrival], int], None]] = [
            service.arrived for service in services if type(service).arrived is not Service.arrived
        ]
        self.configured: list[Callable[[BrokerOptions], None]] = [
            service.configure for service in services if type(service).configure is not Service.configure
        ]
        """Those that read a setting which may change while the broker runs."""
        self.persisted: dict[str, Table] = {}
        for service in services:
            if isinstance(service, Table):
                name = service.persist_name
                if name in self.persisted:
                    raise ValueError(f"two services write config/{name}.json: give one of them another persist_name")
                self.persisted[name] = service
        self._timed: list[Timed] = [Timed(service) for service in services if type(service).due is not Service.due]
        self._by_service: dict[int, Timed] = {id(timed.service): timed for timed in self._timed}
        self._heap: list[tuple[int, int]] = []
        self._reviewed: int = 0
        self.clock: Callable[[], int] | None = None
        """What the time is by now, within a turn; None = ticks may take any time."""
        self.touched: bool = False
        """Set when something happened: what is due may have moved."""

    def start(self, now: int) -> None:
        """Ask every service when it wants its tick."""
        self.touched = False
        self._reviewed = now
        for index in range(len(self._timed)):
            self._ask(index, now)

    def serve_as(self, role: Role) -> None:
        """Refuse from here on what a broker of this role leaves to its master."""
        self.refused.clear()
        if role.short:
            self.refused.update(dict.fromkeys(self._need_replicas, TOO_FEW))
        if not role.may_write:
            for code, refusal in self._at_master.items():
                if not (refusal.unless_reads and role.may_serve):
                    self.refused[code] = (role.may_act and refusal.where_acting) or refusal

    def refuse_all(self, remark: str) -> None:
        """Answer no request until the next `serve_as`."""
        answer = AtMaster(codes.SYSTEM_BUSY, remark)
        self.refused.update(dict.fromkeys(self.handlers, answer))

    def role_changed(self, role: Role, now: int) -> None:
        """The role changed while the broker runs: tell the services, and ask each when it is due now."""
        self.serve_as(role)
        for hook in self._role_hooks:
            hook(role, now)
        self.start(now)

    def wake(self, service: object, now: int) -> None:
        """Ask one service again: what it waits for has moved."""
        timed = self._by_service.get(id(service))
        if timed is not None:
            self._ask(self._timed.index(timed), now)

    def next_due(self) -> int | None:
        """When `tick` is wanted next (ms since epoch), or None."""
        at = self._earliest()
        if self.touched:
            review = self._reviewed + REVIEW_MS
            return review if at is None or review < at else at
        return at

    def _earliest(self) -> int | None:
        while self._heap:
            at, index = self._heap[0]
            if self._timed[index].at == at:
                return at
            heapq.heappop(self._heap)  # superseded by a later answer of the same service
        return None

    def tick(self, now: int, failed: Callable[[Service, BaseException], None]) -> int:
        """Run every tick that is due; returns how many ran. A tick that raises is reported and asked again later."""
        if self.touched and now >= self._reviewed + REVIEW_MS:
            self.start(now)
        ran = 0
        again: list[int] = []
        clock = self.clock
        end = clock() + TICKS_MS if clock is not None else 0
        while (at := self._earliest()) is not None and at <= now:
            _, index = heapq.heappop(self._heap)
            timed = self._timed[index]
            timed.at = None
            try:
                timed.service.tick(now, TICK_BUDGET)
                again.append(index)
            except Exception as error:  # one service's fault must not stop the others' clocks
                failed(timed.service, error)
                timed.not_before = now + FAILED_PAUSE_MS
                self._push(index, timed.not_before)
            ran += 1
            if clock is not None and clock() >= end:
                break
        for index in again:
            # After all that waits: work that stays due at a time long past would come first in every turn.
            self._timed[index].not_before = now
            self._ask(index, now)
        if ran:
            self.touched = True  # what one did may make another due: the store flushes what a delivery appended
        return ran

    def _ask(self, index: int, now: int) -> None:
        timed = self._timed[index]
        at = timed.service.due(now)
        if at is None:
            timed.at = None
            return
        at = max(at, timed.not_before)
        waits = timed.at is not None and timed.at <= now
        if at != timed.at and not (waits and at <= now):  # what is due already keeps its place
            self._push(index, at)

    def _push(self, index: int, at: int) -> None:
        self._timed[index].at = at
        heapq.heappush(self._heap, (at, index))
