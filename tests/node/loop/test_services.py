"""Handlers are merged, doubles refused, ticks come in time and a failing one does not stop the rest."""

from __future__ import annotations

import pytest

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import NOTHING, Outcome
from bolide.broker.core.role import SLAVE, SYNC_MASTER, Role
from bolide.broker.core.service import Routes, Service, Table
from bolide.node.loop.services import REVIEW_MS, TICKS_MS, TOO_FEW, Services
from bolide.remoting.command import Command
from bolide.remoting.request_routes import AtMaster, Kind, RawRoute


class Clock(Service):
    """A service that wants ticks at the times it is given."""

    def __init__(self, *times: int, fails: bool = False) -> None:
        self.times = list(times)
        self.ticked: list[int] = []
        self.fails = fails

    def due(self, now: int) -> int | None:
        return self.times[0] if self.times else None

    def tick(self, now: int, budget: int) -> None:
        self.times.pop(0)
        self.ticked.append(now)
        if self.fails:
            raise ValueError("broken")


class Serves(Table):
    def __init__(self, *codes: int, persist_name: str = "") -> None:
        super().__init__(persist_name or f"of{codes}")
        self.codes = codes

    def routes(self) -> Routes:
        return [RawRoute(code, None, self.answer, Kind.READ) for code in self.codes]

    def answer(self, channel: Channel, command: Command, now: int) -> Outcome:
        return NOTHING


def ignore(service: object, error: BaseException) -> None:
    return None


def test_handlers_are_merged_and_doubles_refused() -> None:
    assert set(Services([Serves(1, 2), Serves(3), Service()]).handlers) == {1, 2, 3}
    with pytest.raises(ValueError, match="request code 2 is already served by Serves"):
        Services([Serves(1, 2), Serves(2)])


def test_two_tables_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"config/topics\.json"):
        Services([Serves(persist_name="topics"), Serves(persist_name="topics")])


def test_ticks_come_in_the_order_of_their_times() -> None:
    early, late = Clock(10, 30), Clock(20)
    services = Services([late, early])
    services.start(0)
    assert services.next_due() == 10
    assert services.tick(10, ignore) == 1
    assert services.next_due() == 20
    assert services.tick(30, ignore) == 2
    assert (early.ticked, late.ticked) == ([10, 30], [30])
    assert services.tick(REVIEW_MS, ignore) == 0
    assert services.next_due() is None


def test_a_service_that_is_woken_is_asked_again() -> None:
    clock = Clock()
    services = Services([clock])
    services.start(0)
    assert services.next_due() is None
    clock.times = [50]
    services.wake(clock, 1)
    assert services.next_due() == 50
    clock.times = [5]
    services.wake(clock, 1)
    assert services.next_due() == 5
    assert services.tick(5, ignore) == 1
    assert services.tick(REVIEW_MS, ignore) == 0
    assert services.next_due() is None


def test_a_tick_that_raises_is_reported_and_tried_later() -> None:
    broken, sound = Clock(10, 20, fails=True), Clock(10)
    failures: list[BaseException] = []
    services = Services([broken, sound])
    services.start(0)
    services.tick(10, lambda service, error: failures.append(error))
    assert sound.ticked == [10] and len(failures) == 1
    assert services.next_due() == REVIEW_MS
    services.tick(REVIEW_MS, ignore)
    assert services.next_due() == 1010


def test_after_a_turn_everybody_is_asked_again_but_not_at_once() -> None:
    idle = Clock()
    services = Services([idle])
    services.start(1000)
    idle.times = [1010]
    assert services.next_due() is None
    services.touched = True
    assert services.next_due() == 1000 + REVIEW_MS
    assert services.tick(1000 + REVIEW_MS, ignore) == 1
    assert idle.ticked == [1000 + REVIEW_MS]
    assert services.tick(1000 + 2 * REVIEW_MS, ignore) == 0
    assert services.next_due() is None


class Long(Service):
    """Much work: each tick takes `cost` ms, and until all is done the same time is due."""

    def __init__(self, cost: int, passed: list[int], due: int) -> None:
        self.cost, self.passed, self.at = cost, passed, due
        self.ticked = 0

    def due(self, now: int) -> int | None:
        return self.at

    def tick(self, now: int, budget: int) -> None:
        self.ticked += 1
        self.passed[0] += self.cost


@pytest.mark.parametrize("cost", [TICKS_MS, 2 * REVIEW_MS])
def test_long_work_that_stays_due_leaves_the_others_their_ticks(cost: int) -> None:
    passed = [100]
    long, other = Long(cost, passed, 10), Clock(200, 201, 400)
    services = Services([long, other, Long(cost, passed, 20)])
    services.clock = lambda: passed[0]
    services.start(passed[0])
    for _ in range(60):
        services.tick(passed[0], ignore)
    assert long.ticked > 10
    assert len(other.ticked) == 3 and other.ticked[0] <= 200 + 5 * cost and other.ticked[2] <= 400 + 5 * cost


class Always(Clock):
    """Due now, whenever it is asked."""

    def due(self, now: int) -> int | None:
        return now

    def tick(self, now: int, budget: int) -> None:
        self.ticked.append(now)


def test_what_is_due_keeps_its_place_when_it_is_asked_again() -> None:
    passed = [100]
    long, other = Long(2 * REVIEW_MS, passed, 10), Always()
    services = Services([long, other])
    services.clock = lambda: passed[0]
    services.start(passed[0])
    for _ in range(20):
        services.tick(passed[0], ignore)
    assert long.ticked > 5 and len(other.ticked) > 5


class Leaves(Service):
    """Answers 1 anywhere, 2 on a master, 3 where reads are served; and notes each role it is told of."""

    def __init__(self) -> None:
        self.roles: list[str] = []

    def routes(self) -> Routes:
        rules = {1: None, 2: AtMaster(11, "not here"), 3: AtMaster(2, "no reads", unless_reads=True)}
        return [RawRoute(code, None, self.answer, Kind.READ, at_master=rule) for code, rule in rules.items()]

    def answer(self, channel: Channel, command: Command, now: int) -> Outcome:
        return NOTHING

    def role_changed(self, role: Role, now: int) -> None:
        self.roles.append(role.name)


def test_what_a_slave_leaves_to_its_master() -> None:
    services = Services([Leaves(), Clock()])
    for role, refused in (
        (Role(), set()),
        (Role(SLAVE, 1), {2, 3}),
        (Role(SLAVE, 1, slave_reads=True), {2}),
        (Role(SYNC_MASTER), set()),
    ):
        services.serve_as(role)
        assert services.refused.keys() == refused


class Stores(Service):
    """Answers a send (1), one that does not only store (2), another request that stores (3), and a read (4)."""

    def routes(self) -> Routes:
        rows = {1: (Kind.SEND, None), 2: (Kind.SEND, False), 3: (Kind.CHANGE, True), 4: (Kind.READ, None)}
        return [RawRoute(code, None, self.answer, kind, needs_replicas=wants) for code, (kind, wants) in rows.items()]

    def answer(self, channel: Channel, command: Command, now: int) -> Outcome:
        return NOTHING


def test_what_is_stored_is_refused_while_too_few_replicas_are_in_sync() -> None:
    services, role = Services([Stores(), Clock()]), Role()
    role.short = True
    services.serve_as(role)
    assert services.refused == {1: TOO_FEW, 3: TOO_FEW}
    role.short = False
    services.serve_as(role)
    assert services.refused == {}


def test_a_role_that_changes_is_told_and_services_are_asked_when_they_are_due() -> None:
    leaves, clock = Leaves(), Clock()
    services = Services([leaves, clock])
    services.start(0)
    role = Role()
    role.told.append(services.role_changed)
    clock.times.append(7)
    role.become(SLAVE, 1, 5)
    assert (leaves.roles, services.refused.keys(), services.next_due()) == ([SLAVE], {2, 3}, 7)
