"""A send that waits is held by everybody who may be the next master, and by as many machines as it asks for."""

from __future__ import annotations

import pytest

from bolide.replication.confirming import Confirming, EpochSession
from bolide.replication.epochs import Epoch, Epochs
from bolide.replication.errors import NotReplicated
from bolide.replication.in_sync import NO_CAP, InSync
from bolide.replication.pacing import Pace
from bolide.replication.sure_end import SureEnd
from bolide.replication.switch_frames import Hello, encode_compare, encode_held, encode_hello, encode_report
from bolide.replication.sync_set import SyncSet

PATIENCE = 15_000
FILE = 4096


def made(
    members: frozenset[int], *, needed: int = 1, everybody: bool = True, closed: list[frozenset[int]] | None = None
) -> Confirming:
    """The master 1 of epoch 3, whose log ended at 100 when it began. `closed` gets the keys of closed connections."""
    sync_set = SyncSet(1, frozenset({1}), 1, 100, PATIENCE)
    sync_set.answered(members, 7, 0)
    in_sync = InSync(needed=needed, timeout=3000, max_gap=1 << 20, end=100)
    epochs, closes = Epochs([Epoch(1, 0), Epoch(3, 100)]), ([] if closed is None else closed).append
    return Confirming(sync_set, in_sync, 1, everybody, epochs, lambda: 100, closes)


def slave(of: Confirming, replica: int, key: int, holds: int, end: int = 100) -> EpochSession:
    """A slave that connected and reported this end; the log may be sent up to `end`."""
    session = of.session(FILE, Pace(), key, 0)
    session.received(encode_hello(Hello(replica)), 0, end, 0)
    assert session.answer(end, 0)
    session.received(encode_report(holds), 0, end, 0)
    return session


def sent(session: EpochSession, end: int) -> None:
    """The slave is sent all, and reports it."""
    while size := session.wanted(end, 1):
        session.transfer(size, 1)
    session.received(encode_report(end), 0, end, 1)


@pytest.mark.parametrize("needed", [1, 2])
def test_every_member_holds_what_is_dispatched(needed: int) -> None:
    of = made(frozenset({1, 2, 3}), needed=needed)
    two, three = slave(of, 2, 10, 100), slave(of, 3, 11, 100)
    assert of.holds_back(500, 0) == 100
    sent(two, 500)
    assert of.holds_back(500, 0) == 100
    assert of.late(500)
    sent(three, 400)
    assert of.holds_back(500, 0) == 400
    assert not of.late(400)
    assert of.late(500)


def test_a_session_knows_the_bytes_of_the_last_second() -> None:
    session = slave(made(frozenset({1, 2})), replica=2, key=10, holds=100)
    sent(session, 500)
    assert session.last_rate == 0
    session.transfer(session.wanted(600, 1000), 1000)
    assert session.last_rate == 400


def test_only_members_count_as_holders() -> None:
    of = made(frozenset({1}), needed=2, everybody=False)
    stranger = slave(of, 2, 10, 100)
    sent(stranger, 500)
    assert of.holds_back(500, 0) == 100
    assert of.late(500)
    of.sync_set.asked(frozenset({1, 2}))
    of.sync_set.answered(frozenset({1, 2}), 8, 0)
    of.recount()
    assert of.holds_back(500, 0) == 500
    assert not of.late(500)


def test_a_slave_that_keeps_up_is_waited_for_before_it_is_a_member() -> None:
    of = made(frozenset({1}))
    joining = slave(of, 2, 10, 100)
    assert of.holds_back(500, 0) == 500
    sent(joining, 400)
    assert of.holds_back(600, 2) == 500, "otherwise it would never hold all confirmed bytes under a steady load"
    sent(joining, 500)
    assert of.holds_back(600, 3) == 500
    assert of.sync_set.wanted(3) == {1, 2}


def test_a_master_alone_in_the_set_delivers_after_a_while_what_one_machine_holds() -> None:
    of = made(frozenset({1}), needed=2, everybody=False)
    assert of.holds_back(500, 0) == 100
    assert of.holds_back(500, of.due()) == 500
    assert of.late(500), "and says that it is held by one machine only"


def test_records_are_not_held_without_a_requirement() -> None:
    of = made(frozenset({1, 2}), everybody=False)
    assert of.holds_back(500, 0) == NO_CAP
    assert not of.late(500)


def test_a_slave_that_connected_again_is_not_gone_with_its_old_connection() -> None:
    of = made(frozenset({1, 2}), needed=2)
    slave(of, 2, 10, 100)
    sent(slave(of, 2, 11, 100), 500)
    of.gone(10)
    assert of.holds_back(500, 0) == 500
    of.gone(11)
    assert of.holds_back(600, 0) == 500
    assert of.sync_set.wanted(0) == {1}


def test_a_slave_keeps_up_while_the_log_grows_all_the_time() -> None:
    of = made(frozenset({1, 2}))
    session = slave(of, 2, 10, 100)
    end, at = 100, 0
    for _ in range(40):
        end, at = end + 1000, at + 1000
        while size := session.wanted(end, at):
            session.transfer(size, at)
        # What it reports now was sent a while ago: the log is longer already.
        session.received(encode_report(end - 900), 0, end, at)
        assert of.sync_set.wanted(at) is None


def test_slave_with_the_id_of_the_master_is_rejected() -> None:
    of = made(frozenset({1}))
    with pytest.raises(NotReplicated, match="it reports id 1, which is the id of the master itself"):
        of.session(FILE, Pace(), 10, 0).received(encode_hello(Hello(1)), 0, 100, 0)


def test_a_slave_that_keeps_up_under_a_steady_load_becomes_a_member() -> None:
    of = made(frozenset({1}))
    two = slave(of, 2, 10, 100)
    ends = iter(range(200, 100_000, 100))
    end, now = next(ends), 0
    while of.sync_set.wanted(now) is None:
        # By the time the slave reports what it was sent, more is stored.
        before, end, now = end, next(ends), now + 5
        of.holds_back(end, now)
        assert sent_to(two, before, now)
        two.received(encode_report(before), 0, end, now)
        of.holds_back(end + 50, now)
    assert of.sync_set.wanted(now) == {1, 2}
    assert not of.is_in_sync(10, two.acked, end), "it keeps up, and the controller has not been asked"
    of.sync_set.asked(frozenset({1, 2}))
    assert of.holds_back(end + 100, now) == two.acked, "nothing is confirmed without it any more"
    of.sync_set.answered(frozenset({1, 2}), 8, 0)
    assert of.is_in_sync(10, two.acked, end)


def sent_to(session: EpochSession, end: int, now: int) -> bool:
    """The slave is sent what there is up to `end`."""
    while size := session.wanted(end, now):
        session.transfer(size, now)
    return session.next_offset >= end


def test_a_slave_of_a_master_that_may_have_lost_some_cuts_that_off_and_what_came_since_stays() -> None:
    of = made(frozenset({1}))
    of.sure_end = SureEnd(300)
    two = of.session(FILE, Pace(), 10, 0)
    two.received(encode_hello(Hello(2)), 0, 500, 0)
    assert int.from_bytes(two.answer(500, 0)[8:16]) == 300
    two.received(encode_report(300), 0, 500, 0)
    sent(two, 500)
    again = of.session(FILE, Pace(), 11, 2)
    again.received(encode_hello(Hello(2)), 0, 600, 2)
    assert int.from_bytes(again.answer(600, 2)[8:16]) == 500


def test_held_frames_are_sent_to_slaves_that_request_them() -> None:
    of = made(frozenset({1, 2, 3}), everybody=False)
    two, three = of.session(FILE, Pace(), 10, 0), slave(of, 3, 11, 100)
    two.received(encode_hello(Hello(2, wants_held=True)), 0, 500, 0)
    two.answer(500, 0)
    two.received(encode_report(100), 0, 500, 0)
    assert of.holds_back(500, 0) == NO_CAP, "no send waits"
    assert of.held == 100
    assert two.transfer(400, 0).startswith(encode_held(100))
    two.received(encode_report(500), 0, 500, 0)
    of.holds_back(500, 0)
    assert of.held == 100, "one member of the set does not have it"
    assert two.news(500, 0) == b""
    sent(three, 500)
    of.holds_back(500, 0)
    assert two.news(500, 0) == encode_held(500)
    assert two.news(500, 0) == b""
    assert encode_held(500) not in three.transfer(0, 0)


def test_held_offset_waits_for_as_many_machines_as_sends_need() -> None:
    of = made(frozenset({1}), needed=2, everybody=False)
    assert of.holds_back(500, 0) == 100
    assert of.held == 100


def test_slave_that_checks_the_name_of_the_set_replaces_no_connection_before_it_reports() -> None:
    """A replica of another set, which may have the same id, closes its connection when it receives the name."""
    of = made(frozenset({1, 2}))
    sent(slave(of, 2, 10, 100), 500)
    assert of.holds_back(500, 0) == 500
    other = of.session(FILE, Pace(), 11, 0, "c#b")
    other.received(encode_hello(Hello(2, wants_name=True)), 0, 500, 0)
    other.answer(500, 0)
    assert of.sync_set.gone(11, 2) is False
    of.gone(11)
    assert of.sync_set.wanted(0) is None


def test_request_for_bytes_to_compare_confirms_nothing() -> None:
    of = made(frozenset({1, 2}))
    two = of.session(FILE, Pace(), 10, 0, "c#b")
    two.received(encode_hello(Hello(2, wants_name=True)), 0, 500, 0)
    two.answer(500, 0)
    assert two.received(encode_compare(400), 0, 500, 0)
    assert of.holds_back(500, 0) == 0
    assert of.sync_set.holders(400) == 1
    while size := two.wanted(500, 0):
        two.transfer(size, 0)
    two.received(encode_report(500), 0, 500, 0)
    assert of.holds_back(500, 0) == 500


def test_connections_are_found_by_their_replicas() -> None:
    of = made(frozenset({1, 2}))
    for replica, key in ((2, 10), (3, 11), (4, 12)):
        slave(of, replica, key, 100)
    assert of.connections_of(frozenset({3, 4})) == {11, 12}


def test_new_connection_of_a_replica_closes_its_older_one() -> None:
    closed: list[frozenset[int]] = []
    of = made(frozenset({1}), closed=closed)
    slave(of, 2, 10, 100)
    slave(of, 3, 11, 100)
    slave(of, 2, 12, 100)
    assert frozenset({10}) in closed
    assert of.connections_of(frozenset({2, 3})) == {11, 12}


def test_acknowledgement_of_an_older_connection_does_not_count() -> None:
    of = made(frozenset({1, 2, 3}), needed=3, everybody=False)
    sent(slave(of, 2, 10, 100), 500)
    again = of.session(FILE, Pace(), 12, 0)
    again.received(encode_hello(Hello(2)), 0, 100, 0)  # it has restarted, and may have lost something
    of.sync_set.answered(frozenset({1, 3}), 8, 0)
    sent(slave(of, 3, 11, 100), 500)
    of.holds_back(500, 0)
    assert of.late(500)
