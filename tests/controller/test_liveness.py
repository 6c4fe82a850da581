"""Reports of masters and heartbeats: which of them count, on a controller that leads and on one that follows."""

from __future__ import annotations

import pytest

from bolide.remoting.replica_claims import Claims
from tests.controller.controllers import Engine, Seat, set_of_three


@pytest.fixture
def seat() -> Seat:
    seat = Seat(Engine())
    seat.lead()
    return seat


CLAIMS_OF_STRANGERS = [
    (999, Claims("x", leads=1 << 62, confirmed=1 << 40)),  # not a replica of the set
    (999, Claims(leads=1, confirmed=1 << 40)),
    (1, Claims("1-0", leads=1, confirmed=1 << 40)),  # not the process
    (1, Claims("1-1", leads=1 << 62, confirmed=1 << 40)),  # not the epoch
    (2, Claims("2-1", leads=1, confirmed=1 << 40)),  # not the master
]


@pytest.mark.parametrize(("broker_id", "claims"), CLAIMS_OF_STRANGERS)
def test_claim_of_a_stranger_does_not_hide_the_reports_of_the_master(
    seat: Seat, broker_id: int, claims: Claims
) -> None:
    set_of_three(seat, confirmed=100)
    seat.beat(broker_id, 5, channel=99, claims=claims)
    seat.beat(1, 6, claims=Claims("1-1", leads=1, confirmed=700, synced=True))
    office = seat.controller.live.office(seat.one())
    assert office is not None and (office.master, office.confirmed) == (1, 700)


@pytest.mark.parametrize(("broker_id", "claims"), CLAIMS_OF_STRANGERS)
def test_follower_keeps_the_reports_of_each_master_apart(broker_id: int, claims: Claims) -> None:
    engine = Engine()
    first, second = Seat(engine, 0), Seat(engine, 1)
    first.lead()
    set_of_three(first)
    reports = [Claims("1-1", leads=1, confirmed=confirmed, synced=True) for confirmed in (700, 900)]
    second.beat(1, 4, claims=reports[0])
    second.beat(broker_id, 5, channel=99, claims=claims)
    second.beat(1, 6, claims=reports[1])
    second.beat(broker_id, 7, channel=99, claims=claims)
    second.lead(8)
    office = second.controller.live.office(second.one())
    assert office is not None and (office.master, office.confirmed) == (1, 900)


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("token", ["", "x"])
def test_master_of_rocketmq_reports_no_confirmed_offset(leads: bool, token: str) -> None:
    seat = Seat(Engine())
    seat.lead()
    for broker_id in (1, 2):
        seat.join(broker_id)
        seat.beat(broker_id, 0)
    assert seat.elect(1).code == 0
    if not leads:
        seat.controller.follow()
    seat.beat(1, 5, claims=Claims(token, leads=1, confirmed=1 << 40))
    if not leads:
        seat.lead(6)
    office = seat.controller.live.office(seat.one())
    assert office is not None and office.confirmed == -1


def test_claims_of_strangers_do_not_displace_the_report_of_a_master_that_is_lost() -> None:
    seat = Seat(Engine(), max_brokers=10)
    seat.lead()
    set_of_three(seat, confirmed=100)
    for number in range(50):
        seat.beat(999, 5, claims=Claims("x", leads=number, confirmed=1 << 40))
        seat.beat(2, 5, claims=Claims("2-1", leads=number, confirmed=1 << 40))
    office = seat.controller.live.office(seat.one())
    assert office is not None and office.confirmed == 100


# ---- repeated heartbeats


def test_repeated_heartbeat_is_not_a_sign_of_life(seat: Seat) -> None:
    """It may be a recorded one, sent by somebody else."""
    set_of_three(seat)
    for number in (1, 2):
        seat.beat(2, 1000 * number, claims=Claims("2-1", number=number))
    for number in (1, 2, -1):
        seat.beat(2, 9000, channel=99, claims=Claims("2-1", number=number))
    seat.controller.channel_closed(99, 9000)
    assert 2 in seat.controller.live.alive_in(seat.one(), 9000)
    seat.controller.tick(12_001)
    for number in (1, 2, -1):
        seat.beat(2, 12_001, channel=99, claims=Claims("2-1", number=number))
    assert 2 not in seat.controller.live.alive_in(seat.one(), 12_001)
    seat.beat(2, 12_002, channel=22, claims=Claims("2-1", number=3))
    assert 2 in seat.controller.live.alive_in(seat.one(), 12_002)


def test_heartbeats_of_a_new_start_are_counted_from_the_beginning(seat: Seat) -> None:
    set_of_three(seat)
    seat.beat(2, 1000, claims=Claims("2-1", number=50))
    seat.register(2, 1001, claims=Claims("2-2", "2-1"))
    seat.beat(2, 1002, channel=22, claims=Claims("2-2", number=1))
    assert 2 in seat.controller.live.alive_in(seat.one(), 1002)
