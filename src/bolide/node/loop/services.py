"""The services of one server: the table of request codes, a heap of due times, and the hooks of each service.

A new service is one more element of the list passed to `Services`. Overridden hooks are looked up once here, so hooks
that a service does not override cost nothing per turn.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Handler, Outcome
from bolide.broker.core.role import Role
from bolide.broker.core.service import Service, Table
from bolide.broker.options.composed import BrokerOptions
from bolide.remoting import codes
from bolide.remoting.request_routes import AtMaster, Kind, RequestTable
from bolide.store.background.arrival import Arrival

BrokerTable: TypeAlias = RequestTable[Channel, Outcome]
TICK_BUDGET: Final = 1000
"""Maximum number of records that one tick may handle."""
TICKS_MS: Final = 15
"""Maximum time for all ticks of one turn. The rest runs in the next turn."""
TOO_FEW: Final = AtMaster(codes.SYSTEM_ERROR, "in-sync replicas not enough")
"""Error response of a master whose in-sync replicas are fewer than minInSyncReplicas."""
FAILED_PAUSE_MS: Final = 1000
REVIEW_MS: Final = 50
"""Minimum interval between reviews of all due times. They follow turns with activity, because the work of one service
may create work of another (a pull commits an offset, which must be written)."""


@final
class Timed:
    """A service that uses ticks, and the time of its next tick."""

    def __init__(self, service: Service) -> None:
        self.service: Service = service
        self.at: int | None = None
        self.not_before: int = 0
        """Time of the last tick. After a failed tick: earliest time of the next one."""


@final
class Services:
    """All services of a broker, looked up once at startup.

    `handlers` maps request codes to handlers. Each set of codes contains the codes whose routes satisfy a rule
    (remoting/request_routes.py).
    """

    def __init__(self, services: Sequence[Service], clock: Callable[[], int] | None = None) -> None:
        """`clock` returns the current time within a turn. None: ticks are not limited."""
        self.services: list[Service] = list(services)
        self.table: BrokerTable = RequestTable()
        for service in services:
            self.table.add(type(service).__name__, service.routes())
        self.handlers: dict[int, Handler] = self.table.handlers
        self.sends: frozenset[int] = self.table.of_kind(Kind.SEND)
        self.pulls: frozenset[int] = self.table.of_kind(Kind.PULL)
        self.not_durable: frozenset[int] = self.table.codes(lambda row: not row.durable)
        self.light: frozenset[int] = self.table.codes(lambda row: row.light)
        self.ordinary: dict[int, frozenset[int]] = self.table.ordinary()
        self._need_replicas: frozenset[int] = self.table.codes(
            lambda row: row.kind is Kind.SEND if row.needs_replicas is None else row.needs_replicas
        )
        self._at_master: dict[int, AtMaster] = {
            code: row.at_master for code, row in self.table.rows.items() if row.at_master is not None
        }
        self.refused: dict[int, AtMaster] = {}
        """Codes that the broker rejects in its current role. Empty on a master."""
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
        """Hooks of services that read a live setting."""
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
        self.clock: Callable[[], int] | None = clock
        self.touched: bool = False
        """Set after activity: due times may have changed."""

    def start(self, now: int) -> None:
        """Query every service for the time of its next tick."""
        self.touched = False
        self._reviewed = now
        for index in range(len(self._timed)):
            self._ask(index, now)

    def serve_as(self, role: Role) -> None:
        """Update the table of rejected request codes for a role."""
        self.refused.clear()
        if role.short:
            self.refused.update(dict.fromkeys(self._need_replicas, TOO_FEW))
        if not role.may_write:
            for code, refusal in self._at_master.items():
                if not (refusal.unless_reads and role.may_serve):
                    self.refused[code] = (role.may_act and refusal.where_acting) or refusal

    def refuse_all(self, remark: str) -> None:
        """Reject all requests until the next `serve_as`."""
        answer = AtMaster(codes.SYSTEM_BUSY, remark)
        self.refused.update(dict.fromkeys(self.handlers, answer))

    def role_changed(self, role: Role, now: int) -> None:
        """Notify the services of a changed role, and update their due times."""
        self.serve_as(role)
        for hook in self._role_hooks:
            hook(role, now)
        self.start(now)

    def wake(self, service: object, now: int) -> None:
        """Update the due time of one service."""
        timed = self._by_service.get(id(service))
        if timed is not None:
            self._ask(self._timed.index(timed), now)

    def next_due(self) -> int | None:
        """Return when to call `tick` next (ms since the epoch), or None."""
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
            heapq.heappop(self._heap)  # superseded by a newer due time of the same service
        return None

    def tick(self, now: int, failed: Callable[[Service, BaseException], None]) -> int:
        """Run every due tick. Return how many ran. A tick that raises is reported, and repeated after a pause."""
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
            except Exception as error:  # a fault in one service must not stop the ticks of others
                failed(timed.service, error)
                timed.not_before = now + FAILED_PAUSE_MS
                self._push(index, timed.not_before)
            ran += 1
            if clock is not None and clock() >= end:
                break
        for index in again:
            # Queue it behind other overdue services: a service that stays overdue would otherwise run first in every
            # turn.
            self._timed[index].not_before = now
            self._ask(index, now)
        if ran:
            self.touched = True  # One tick may make another service due: the store flushes a delivery.
        return ran

    def _ask(self, index: int, now: int) -> None:
        timed = self._timed[index]
        at = timed.service.due(now)
        if at is None:
            timed.at = None
            return
        at = max(at, timed.not_before)
        waits = timed.at is not None and timed.at <= now
        if at != timed.at and not (waits and at <= now):  # an overdue service keeps its position
            self._push(index, at)

    def _push(self, index: int, at: int) -> None:
        self._timed[index].at = at
        heapq.heappush(self._heap, (at, index))
