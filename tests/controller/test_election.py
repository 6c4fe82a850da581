"""Elections after a failover and after a full stop, and what an operator can decide."""

from __future__ import annotations

import pytest

from bolide.controller.effects import Elect, KeepConfirmed
from bolide.remoting import codes
from bolide.remoting.replica_claims import Claims
from tests.controller.controllers import CLUSTER, NAME, Engine, Seat, address, life, set_of_three, stop

FAILED = codes.CONTROLLER_ELECT_MASTER_FAILED
LONGEST = 60_000


def back(seat: Seat, broker_id: int, now: int, end: int, *, start: int = 2, epoch: int = 1, priority: int = 9) -> int:
    """A broker starts again with a log that ends at `end`, and asks for an election; the code of the answer."""
    assert seat.register(broker_id, now, claims=life(broker_id, start)).code == 0
    seat.beat(
        broker_id, now, channel=100 * start + broker_id, claims=life(broker_id, start), epoch=epoch, maxOffset=end,
        electionPriority=priority,
    )  # fmt: skip
    return seat.elect(broker_id, now, life=life(broker_id, start).life).code


@pytest.fixture
def seat() -> Seat:
    seat = Seat(Engine())
    seat.lead()
    return seat


# ---- failover


def test_failover_elects_a_member_that_never_left_immediately(seat: Seat) -> None:
    set_of_three(seat, confirmed=500)
    stop(seat, 1, now=100)
    assert (seat.one().master, seat.one().master_epoch) == (2, 2)
    assert seat.said == []


def test_member_that_never_left_wins_over_longer_log_that_returned(seat: Seat) -> None:
    set_of_three(seat)
    stop(seat, 3, now=100)
    seat.register(3, 200, claims=life(3, 2))
    seat.beat(3, 200, channel=30, claims=life(3, 2), epoch=1, maxOffset=10_000)
    seat.beat(2, 200, claims=life(2), epoch=1, maxOffset=500)
    stop(seat, 1, now=300)
    assert seat.one().master == 2


def office(seat: Seat, broker_id: int, epoch: int, end: int) -> int:
    """A replica begins to lead with a log that ends at `end`; the code of the answer."""
    claims = Claims(f"{broker_id}-1", leads=epoch, confirmed=end, synced=True)
    return seat.register(broker_id, 100, claims=claims).code


def test_another_member_is_elected_if_the_master_dies_before_it_takes_its_office(seat: Seat) -> None:
    set_of_three(seat, confirmed=500)
    stop(seat, 1, now=100)
    assert (seat.one().master, seat.one().in_sync, seat.one().former) == (2, (2,), (1, 2, 3))
    stop(seat, 2, now=200)
    assert (seat.one().master, seat.one().master_epoch) == (3, 3)


def test_only_the_master_is_elected_once_it_is_in_office(seat: Seat) -> None:
    set_of_three(seat, confirmed=500)
    stop(seat, 1, now=100)
    assert office(seat, 2, 2, 500) == codes.SUCCESS
    assert office(seat, 2, 2, 500) == codes.SUCCESS
    assert (seat.one().former, seat.one().master) == ((), 2)
    stop(seat, 2, now=200)
    assert seat.one().master is None


def test_replica_takes_only_the_office_that_it_was_elected_for(seat: Seat) -> None:
    set_of_three(seat)
    stop(seat, 1, now=100)
    assert office(seat, 2, 1, 0) == codes.CONTROLLER_INVALID_MASTER
    assert office(seat, 3, 2, 0) == codes.CONTROLLER_INVALID_MASTER
    assert seat.one().former == (1, 2, 3)


def test_master_that_returns_with_less_than_it_began_with_waits_for_an_operator(seat: Seat) -> None:
    set_of_three(seat, confirmed=100)
    stop(seat, 1, now=100)
    office(seat, 2, 2, 500)
    stop(seat, 2, now=200)
    assert back(seat, 2, 300, 400, epoch=2) == FAILED
    assert back(seat, 2, 400, 500, epoch=2, start=3) == codes.SUCCESS


def test_new_controller_elects_a_member_that_never_left_immediately() -> None:
    engine = Engine()
    first, second = Seat(engine, 0), Seat(engine, 1)
    first.lead()
    set_of_three(first)
    second.lead(1000)
    second.beat(3, 2000, claims=life(3), epoch=1, maxOffset=500)
    second.keep_election(2000)
    assert second.one().master == 3


def test_broker_without_token_is_watched_by_its_connection(seat: Seat) -> None:
    for broker_id in (1, 2, 3):
        seat.join(broker_id)
        seat.beat(broker_id, 0)
    assert seat.elect(1).code == 0
    assert (seat.alter(1, 1, [1, 2], 1).code, seat.alter(1, 1, [1, 2, 3], 2).code) == (0, 0)
    seat.beat(2, 50, channel=22)  # over another connection: perhaps another process
    seat.beat(3, 50)
    stop(seat, 1, now=100)
    assert seat.one().master == 3
    stop(seat, 3, now=200)
    assert seat.elect(2, 200).code == FAILED, "only the master of the last epoch is in sync"


def test_master_that_starts_again_stands_for_election(seat: Seat) -> None:
    set_of_three(seat)
    seat.register(1, 100, claims=life(1, 2))  # its old connection has not ended yet
    assert (seat.one().master, seat.one().master_epoch) == (None, 2)
    assert seat.elect(1, 100, life="1-2").ext()["masterBrokerId"] == "2"


def test_master_that_registers_twice_in_one_life_stays(seat: Seat) -> None:
    set_of_three(seat)
    assert seat.register(1, 100, claims=Claims("1-1", "1-1")).ext()["masterBrokerId"] == "1"
    assert seat.one().master == 1


# ---- after a full stop


def stopped(seat: Seat, confirmed: int = -1, synced: bool = True) -> None:
    """All three stop in one moment, so that nobody is elected in between: all are members of the last set."""
    set_of_three(seat, confirmed=confirmed, synced=synced)
    for broker_id in (1, 2, 3):
        seat.controller.channel_closed(broker_id, 100)
    seat.controller.take_effects()
    seat.keep_election(100)
    assert (seat.one().master, seat.one().in_sync) == (None, (1, 2, 3))


def test_election_waits_until_every_member_has_returned(seat: Seat) -> None:
    stopped(seat)
    assert back(seat, 2, 1000, 300) == FAILED
    assert seat.said == [
        f"the election waits for 1 ({address(1)}), 3 ({address(3)}); start these brokers, or give them up with bolide "
        f"cluster leave {NAME} --id ID --controller ..., or choose a master with bolide cluster switch {NAME} --to ID "
        f"--controller ..."
    ]
    assert seat.elect(2, 2000, life="2-2").code == FAILED
    assert len(seat.said) == 1, "one line for each news"
    assert back(seat, 1, 2000, 900) == FAILED
    assert [each.missing for each in seat.controller.elections.waiting.values()] == [(3,)]
    assert back(seat, 3, 3000, 899) == 0
    assert (seat.one().master, seat.one().in_sync) == (1, (1,))
    assert seat.controller.elections.waiting == {}
    assert sum(seat.controller.elections.counts.values()) == 3, "an election that waits is not over"


def test_newest_epoch_wins_over_longest_log_and_priority_decides_between_equals(seat: Seat) -> None:
    stopped(seat)
    back(seat, 1, 1000, 900, epoch=0)
    back(seat, 2, 1000, 500, priority=2)
    back(seat, 3, 1000, 500, priority=1)
    assert seat.one().master == 3


def test_longest_log_that_is_there_wins_after_the_longest_wait(seat: Seat) -> None:
    stopped(seat, confirmed=300)
    hour = 3_600_000  # the wait begins when a member returns, not when the set stops
    assert back(seat, 2, hour, 300) == FAILED
    for now in (hour, hour + LONGEST - 1):
        seat.beat(2, now, channel=202, claims=life(2, 2), epoch=1, maxOffset=300)
        assert seat.elect(2, now, life="2-2").code == FAILED
    seat.controller.tick(hour + LONGEST)
    assert Elect(NAME) in seat.controller.take_effects(), "the controller tries by itself"
    seat.keep_election(hour + LONGEST)
    assert seat.one().master == 2


def test_without_a_longest_wait_an_operator_decides() -> None:
    seat = Seat(Engine(), max_wait_for_members=0)
    seat.lead()
    stopped(seat)
    back(seat, 2, 1000, 300)
    later = 10 * LONGEST
    seat.beat(2, later, channel=202, claims=life(2, 2), epoch=1, maxOffset=300)
    assert seat.elect(2, later, life="2-2").code == FAILED
    assert seat.elect(2, later, designate=True).ext()["masterBrokerId"] == "2"


def test_log_below_the_confirmed_offset_is_not_elected(seat: Seat) -> None:
    stopped(seat, confirmed=800)
    back(seat, 2, 1000, 799)
    later = 1000 + LONGEST
    seat.beat(2, later, channel=202, claims=life(2, 2), epoch=1, maxOffset=799)
    assert seat.elect(2, later, life="2-2").code == FAILED
    assert "because no log that is here reaches 800" in seat.said[-1]
    seat.beat(2, later, channel=202, claims=life(2, 2), epoch=1, maxOffset=799)
    assert back(seat, 3, later, 800) == 0
    assert seat.one().master == 3, "one that is whole is there, and the longest wait is over"


@pytest.mark.parametrize(("synced", "code"), [(True, FAILED), (False, 0)])
def test_short_logs_of_all_members_are_elected_only_where_a_power_failure_explains_them(
    seat: Seat, synced: bool, code: int
) -> None:
    stopped(seat, confirmed=800, synced=synced)
    for broker_id in (1, 2, 3):
        last = back(seat, broker_id, 1000, 700)
    assert last == code


def test_unclean_election_gives_up_what_is_missing_after_the_longest_wait() -> None:
    seat = Seat(Engine(), enable_elect_unclean_master=True)
    seat.lead()
    stopped(seat, confirmed=800)
    assert back(seat, 2, 1000, 700) == FAILED
    seat.beat(2, 1000 + LONGEST, channel=202, claims=life(2, 2), epoch=1, maxOffset=700)
    assert seat.elect(2, 1000 + LONGEST, life="2-2").code == 0
    office = seat.one().office
    assert office is not None and (office.master, office.confirmed) == (2, 700), "the rest is given up"


def test_operator_designates_a_short_log(seat: Seat) -> None:
    stopped(seat, confirmed=800)
    back(seat, 2, 1000, 700)
    assert seat.elect(2, 1000, designate=True).code == 0
    office = seat.one().office
    assert office is not None and office.confirmed == 700


def test_election_goes_on_without_a_member_that_the_operator_gives_up(seat: Seat) -> None:
    stopped(seat, confirmed=800)
    back(seat, 2, 1000, 800)
    back(seat, 3, 1000, 800)
    cleaned = {"brokerControllerIdsToClean": "1", "isCleanLivingBroker": "false"}
    assert seat.ask(codes.CLEAN_BROKER_DATA, CLUSTER | cleaned, now=1000).code == 0
    assert seat.elect(2, 1000, life="2-2").ext()["masterBrokerId"] == "2"


def test_operator_who_gave_up_the_last_member_chooses_among_the_others(seat: Seat) -> None:
    set_of_three(seat)
    assert seat.alter(1, 1, [1], 3, life="1-1").code == 0
    stop(seat, 1, now=100)
    seat.beat(2, 100, claims=life(2), epoch=1, maxOffset=500)
    assert seat.elect(2, 100, designate=True).code == FAILED, "1 is in sync, and may return"
    cleaned = {"brokerControllerIdsToClean": "1", "isCleanLivingBroker": "false"}
    assert seat.ask(codes.CLEAN_BROKER_DATA, CLUSTER | cleaned, now=100).code == 0
    assert seat.elect(2, 100, life="2-1").code == FAILED
    assert seat.elect(2, 100, designate=True).ext()["masterBrokerId"] == "2"


def test_wait_begins_again_under_another_controller() -> None:
    engine = Engine()
    first, second = Seat(engine, 0), Seat(engine, 1)
    first.lead()
    stopped(first)
    back(first, 2, 1000, 300)
    later = 1000 + LONGEST
    for now in (1000, later):
        second.beat(2, now, claims=life(2, 2), epoch=1, maxOffset=300)
    second.lead(later)
    assert second.elect(2, later, life="2-2").code == FAILED


# ---- the confirmed offset


def test_confirmed_offset_is_kept_with_each_decision_and_once_a_minute(seat: Seat) -> None:
    set_of_three(seat, confirmed=100)
    assert seat.alter(1, 1, [1, 2], 3, now=2, life="1-1").code == 0
    office = seat.one().office
    assert office is not None and (office.confirmed, office.synced) == (100, True)
    leads = Claims("1-1", leads=1, confirmed=900, synced=True)
    seat.beat(1, 59_999, claims=leads)
    seat.controller.tick(59_999)
    assert KeepConfirmed(NAME) not in seat.controller.take_effects()
    seat.controller.tick(60_000)
    assert KeepConfirmed(NAME) in seat.controller.take_effects()
    before = len(seat.engine.history)
    seat.keep_confirmed(60_000)
    seat.keep_confirmed(60_000)
    office = seat.one().office
    assert office is not None and office.confirmed == 900
    assert len(seat.engine.history) == before + 1, "what is not new is not written"


def test_confirmed_offset_outlives_the_controller() -> None:
    engine = Engine()
    first, second = Seat(engine, 0), Seat(engine, 1)
    first.lead()
    stopped(first, confirmed=800)
    second.lead(1000)
    back(second, 2, 1000, 799)
    second.beat(2, 1000 + LONGEST, channel=202, claims=life(2, 2), epoch=1, maxOffset=799)
    assert second.elect(2, 1000 + LONGEST, life="2-2").code == FAILED
    assert "reaches 800" in second.said[-1]


@pytest.mark.parametrize(
    "claims",
    [
        Claims("2-1", leads=9, confirmed=1 << 40),  # not the master
        Claims("1-1", leads=9, confirmed=1 << 40),  # not the epoch
        Claims("1-7", leads=1, confirmed=1 << 40),  # not the process
    ],
)
def test_only_the_master_of_the_epoch_says_what_is_confirmed(seat: Seat, claims: Claims) -> None:
    set_of_three(seat, confirmed=100)
    seat.beat(int(claims.life[0]), 5, claims=claims)
    office = seat.controller.live.office(seat.one())
    assert office is not None and office.confirmed <= 100


def test_malformed_claim_is_named(seat: Seat) -> None:
    for key, value in (("bolideLeads", "x"), ("bolideConfirmed", "9" * 20), ("bolideLife", "x" * 129)):
        answer = seat.ask(codes.BROKER_HEARTBEAT, CLUSTER | {"brokerAddr": "a:1", "brokerId": "1", key: value})
        assert key in str(answer.remark)


# ---- copies and clones


def test_older_copy_of_a_store_is_refused(seat: Seat) -> None:
    set_of_three(seat)
    stop(seat, 3, now=100)
    assert back(seat, 3, 200, 500) != 0
    answer = seat.register(3, 30_000, where="10.7.7.7:1", claims=Claims("3-x", "3-1"))
    assert answer.code == codes.CONTROLLER_BROKER_ID_INVALID
    assert "is a copy of that one or an older state of it" in str(answer.remark)
    assert seat.one().replicas[3].address == address(3)


def test_broker_without_tokens_cannot_take_the_place_of_one_with_tokens(seat: Seat) -> None:
    set_of_three(seat)
    stop(seat, 3, now=100)
    answer = seat.register(3, 200, claims=Claims())
    assert answer.code == codes.CONTROLLER_BROKER_ID_INVALID
    assert "downgrade the controllers first" in str(answer.remark)
    assert seat.one().replicas[3].life == "3-1"


def test_lost_answer_to_a_registration_does_no_harm(seat: Seat) -> None:
    set_of_three(seat)
    stop(seat, 3, now=100)
    again = Claims("3-2", "3-1")
    assert [seat.register(3, 200, claims=again).code for _ in range(2)] == [0, 0]


def test_identity_is_held_at_one_address_at_a_time(seat: Seat) -> None:
    set_of_three(seat)
    clone = Claims("3-x", "3-1")  # of a folder that was copied since the last start
    answer = seat.register(3, 100, where="10.7.7.7:1", claims=clone)
    assert answer.code == codes.CONTROLLER_BROKER_ID_INVALID
    assert f"replica 3 of {NAME} lives at {address(3)}, so the broker at 10.7.7.7:1 cannot be it" in str(answer.remark)
    assert seat.register(3, 30_000, where="10.7.7.7:1", claims=clone).code == 0, "the first one has stopped: it moved"


def test_signs_of_life_of_a_copy_do_not_count(seat: Seat) -> None:
    set_of_three(seat)
    stop(seat, 3, now=100)
    seat.beat(3, 200, channel=33, claims=Claims("3-0"))
    seat.beat(3, 200, channel=34, claims=Claims("3-1"), where="10.7.7.7:1")
    seat.beat(3, 200, channel=35)
    assert 3 not in seat.controller.live.alive_in(seat.one(), 200)


def test_requests_of_a_copy_are_refused(seat: Seat) -> None:
    set_of_three(seat)
    assert seat.alter(1, 1, [1, 2], 3, life="1-0").code == codes.CONTROLLER_INVALID_MASTER
    assert seat.alter(1, 1, [1, 2], 3).code == codes.CONTROLLER_INVALID_MASTER
    assert seat.elect(2, life="2-0").code == codes.CONTROLLER_INVALID_REQUEST
    assert seat.elect(2).code == codes.CONTROLLER_INVALID_REQUEST
    assert seat.elect(2, designate=True).code == 0, "an operator has no token"


def test_followers_do_not_count_the_signs_of_a_copy_either() -> None:
    engine = Engine()
    first, second = Seat(engine, 0), Seat(engine, 1)
    first.lead()
    set_of_three(first)
    second.beat(3, 1000, claims=Claims("3-0"))
    second.lead(1000)
    assert second.controller.live.alive_in(second.one(), 1000) == {}
