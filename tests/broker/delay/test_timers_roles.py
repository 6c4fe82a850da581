"""The timer of a broker that is a slave for a while: it stands still, and continues where its master's timer was."""

from __future__ import annotations

import pytest

from bolide.layout.names import TIMER_TOPIC
from bolide.testing.files import SimulatedFiles
from tests.broker.timer_parts import FOLLOWED, Timer

SLAVE = {"broker_role": "SLAVE", "broker_id": 1}


def become(timer: Timer, name: str) -> None:
    timer.writer.role.become(name, 1, timer.now)
    timer.service.role_changed(timer.writer.role, timer.now)


def slave_of(master: Timer) -> Timer:
    """A broker whose log is the master's, with no wheel of its own, and what the master tells of its timer."""
    slave = Timer(now=master.now)
    become(slave, "SLAVE")
    for record in master.records(TIMER_TOPIC):
        # The log of a slave is written by its master; here the door is opened for each record.
        slave.writer.role.become("ASYNC_MASTER", 0, slave.now)
        slave.put(record.body.decode(), TIMER_DELIVER_MS=_out(record.properties))
        slave.writer.role.become("SLAVE", 1, slave.now)
    slave.turn()
    return slave


def _out(properties: bytes) -> str:
    fields = dict(part.split(b"\x01") for part in properties.split(b"\x02") if part)
    return fields[b"TIMER_DELIVER_MS"].decode()


def test_a_slave_takes_nothing_into_a_wheel_and_delivers_nothing() -> None:
    timer = Timer()
    timer.send("a", 3_000)
    become(timer, "SLAVE")
    assert timer.service.due(timer.now) is None
    timer.later(10_000)
    assert timer.delivered() == []
    become(timer, "ASYNC_MASTER")
    timer.later(2_000)
    assert timer.delivered() == ["a"]


def test_a_master_that_was_a_slave_delivers_nothing_twice() -> None:
    timer = Timer()
    timer.send("a", 3_000)
    timer.send("b", 20_000)
    timer.later(5_000)
    assert timer.delivered() == ["a"]
    become(timer, "SLAVE")
    become(timer, "ASYNC_MASTER")
    timer.later(30_000)
    assert timer.delivered() == ["a", "b"]


@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
def test_a_new_master_delivers_what_the_old_one_had_not(restarted: bool) -> None:
    master = Timer()
    for key, delay in (("a", 2_000), ("b", 3_000), ("c", 20_000), ("d", 30_000)):
        master.send(key, delay)
    slave = slave_of(master)
    master.later(8_000)
    assert master.delivered() == ["a", "b"]
    told = master.service._checkpoint(master.now)  # what the master answers to 60
    slave.followed.follow(told.read_time, told.queue_offset)
    slave.turn()
    if restarted:
        slave.close()
        slave = slave.again(now=master.now)
    else:
        slave.now = master.now
        become(slave, "ASYNC_MASTER")
    slave.later(60_000)
    assert slave.delivered() == ["c", "d"]
    assert not slave.followed.known
    assert slave.files.read_file(FOLLOWED) == b"{}", "its own files tell from here on"
    slave.close()
    third = slave.again()
    third.later(60_000)
    assert third.delivered() == ["c", "d"]


def test_a_new_master_that_dies_before_its_own_files_are_on_disk_begins_once_more() -> None:
    master = Timer()
    for key, delay in (("a", 2_000), ("b", 20_000)):
        master.send(key, delay)
    slave = slave_of(master)
    master.later(8_000)
    told = master.service._checkpoint(master.now)
    slave.followed.follow(told.read_time, told.queue_offset)
    slave.turn()
    slave.close()
    first = slave.again(now=master.now)
    assert first.followed.known
    assert isinstance(first.files, SimulatedFiles)
    disk = first.files.clone()
    disk.process_crash()
    again = first.again(disk)
    again.later(60_000)
    assert again.delivered() == ["b"]


def test_a_new_master_delivers_a_message_at_an_offset_that_a_lost_log_had_used() -> None:
    """The clock of the lost master was ahead: its timer had delivered all messages that are due in the next 20 s."""
    timer = Timer()
    become(timer, "SLAVE")
    timer.followed.follow(timer.now + 20_000, 9)
    become(timer, "ASYNC_MASTER")
    timer.send("a", 3_000)
    timer.later(10_000)
    assert timer.delivered() == ["a"]
