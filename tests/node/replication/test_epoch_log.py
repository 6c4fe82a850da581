"""The epochs of a log are never wrong about what it holds, whenever process or machine die."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from bolide.node.machine.node_world import RealNodeWorld
from bolide.node.replication.epoch_file import NAME, load_epochs
from bolide.node.replication.epoch_log import EpochLog
from bolide.replication.epochs import Epoch, Epochs
from bolide.replication.errors import NotReplicated
from bolide.store.disk.file_contract import FileFailed
from bolide.store.raw_log import RawLog
from bolide.testing.files import Stopped
from tests.store.scenario import ROOT, Machine

PATH = f"{ROOT}/{NAME}"


def epoch_log(of: Machine) -> EpochLog:
    return EpochLog(RealNodeWorld(of.files), PATH, RawLog(of.store))


def log_of(of: Machine) -> bytes:
    return bytes(of.store.log.segments.read(0, int(of.store.written_offset)))


def ends(of: Machine) -> list[int]:
    return [int(sent.at.end_offset) for sent in of.acknowledged]


async def written(of: Machine, epochs: EpochLog, number: int, records: int) -> None:
    """A master of an epoch writes so many records."""
    await epochs.lead(number, True)
    for _ in range(records):
        of.turn()


async def master_of_three() -> tuple[Machine, Epochs, Machine]:
    """The master of epoch 4, and a replica that went another way: it was alone in epoch 3.

    They share epoch 1 and the front of epoch 2, which the master wrote on.
    """
    of = Machine()
    epochs = epoch_log(of)
    await written(of, epochs, 1, 5)
    await written(of, epochs, 2, 3)
    other = Machine(files=of.files.clone(), now=of.now)
    other.number, other.acknowledged = 500, []
    theirs = epoch_log(other)
    await written(other, theirs, 3, 6)
    for _ in range(12):
        of.turn()
    await written(of, epochs, 4, 4)
    return of, epochs.epochs, other


def common_of(one: bytes, other: bytes) -> int:
    """Up to where two logs are the same bytes."""
    return next((at for at in range(min(len(one), len(other))) if one[at] != other[at]), min(len(one), len(other)))


async def follow(slave: Machine, log: bytes, epochs: Epochs, steps: int) -> None:
    """What `AutoSwitchHAClient` does with a store: cut, then bytes, each epoch before its first."""
    raw = RawLog(slave.store)
    own = EpochLog(RealNodeWorld(slave.files), PATH, raw)
    end = own.epochs.common_end(int(raw.end), epochs, len(log))
    assert end >= 0
    if end < raw.end:
        raw.cut(end, slave.now)
    await own.cut(end)
    at = int(raw.end)
    for _ in range(steps):
        epoch = epochs.covering(at)
        if at >= len(log) or epoch is None:
            return
        stop = min(at + 300, epochs.end_of(epoch.number, len(log)))
        if epoch != own.epochs.last:
            await own.keep(own.epochs.begun(*epoch))
        raw.append(at, log[at:stop], slave.now)
        slave.flush()
        at = stop


@pytest.mark.parametrize("power_cut", [None, 1, 2, 3])
async def test_a_slave_that_dies_anywhere_never_takes_other_bytes_for_its_masters(power_cut: int | None) -> None:
    master, epochs, other = await master_of_three()
    log = log_of(master)
    replicas = [(log, epochs), (log_of(other), epoch_log(other).epochs)]
    other.store.close(other.now)
    stop = 0
    while True:
        slave = Machine(files=other.files.clone(), now=other.now)
        slave.files.stop_after = slave.files.calls + stop
        done = await survives(follow, slave, log, epochs)
        slave.files.stop_after = None
        if power_cut is None:
            slave.crash()
        else:
            slave.power_cut(power_cut)
        check(slave, replicas)
        await follow(slave, log, epochs, 2)
        slave.crash()
        check(slave, replicas)
        await follow(slave, log, epochs, 1000)
        assert log_of(slave) == log
        assert load_epochs(slave.files, PATH).entries == epochs.entries
        if done:
            assert stop > 20, "it died at many places"
            return
        stop += 1


def check(slave: Machine, replicas: list[tuple[bytes, Epochs]]) -> None:
    """What the epochs say that two logs have in common, they have."""
    own = epoch_log(slave).epochs
    for theirs, epochs in replicas:
        assumed = own.common_end(int(slave.store.end_offset), epochs, len(theirs))
        assert 0 <= assumed <= common_of(log_of(slave), theirs)


async def survives(
    step: Callable[[Machine, bytes, Epochs, int], Awaitable[None]], slave: Machine, log: bytes, epochs: Epochs
) -> bool:
    """False when the process died in it."""
    try:
        await step(slave, log, epochs, 1000)
    except Stopped:
        return False
    return True


@pytest.mark.parametrize("power_cut", [None, 1, 2])
async def test_a_master_that_dies_while_its_epoch_begins_has_no_byte_of_it_without_it(power_cut: int | None) -> None:
    first = Machine()
    await written(first, epoch_log(first), 1, 5)
    first.store.close(first.now)
    for stop in range(60):
        of = Machine(files=first.files.clone(), now=first.now)
        before = int(of.store.end_offset)
        of.files.stop_after = of.files.calls + stop
        try:
            await written(of, epoch_log(of), 2, 2)
            done = True
        except Stopped:
            done = False
        of.files.stop_after = None
        if power_cut is None:
            of.crash()
        else:
            of.power_cut(power_cut)
        kept = epoch_log(of).epochs
        if of.store.end_offset > before:
            assert kept.entries == (Epoch(1, 0), Epoch(2, before))
        if done:
            return
    raise AssertionError("it takes fewer calls")


async def test_epochs_of_truncated_bytes_are_gone_even_if_their_file_cannot_be_written() -> None:
    of = Machine()
    epochs = epoch_log(of)
    await written(of, epochs, 1, 5)
    end = ends(of)[2]
    await written(of, epochs, 2, 3)
    RawLog(of.store).cut(end, of.now)
    of.files.fail_next("write_file")
    with pytest.raises(FileFailed):
        await epochs.cut(end)
    assert epochs.epochs.entries == (Epoch(1, 0),)
    assert len(load_epochs(of.files, PATH).entries) == 2
    await epochs.cut(end)
    assert load_epochs(of.files, PATH).entries == (Epoch(1, 0),)


async def test_a_log_without_epochs_belongs_to_its_first() -> None:
    of = Machine()
    for _ in range(5):
        of.turn()
    epochs = epoch_log(of)
    await epochs.lead(1, True)
    assert epochs.epochs.entries == (Epoch(1, 0),)


async def test_a_master_that_returns_in_its_epoch_begins_it_once_more_only_where_it_may_have_lost_some() -> None:
    of = Machine()
    epochs = epoch_log(of)
    await written(of, epochs, 1, 5)
    start = int(of.store.end_offset)
    await written(of, epochs, 2, 5)
    await epochs.lead(2, True)
    assert epochs.epochs.last == Epoch(2, start)
    await epochs.lead(2, False)
    assert epochs.epochs.last == Epoch(2, int(of.store.end_offset))
    with pytest.raises(NotReplicated, match="epoch 1, but this log already has epoch 2"):
        await epochs.lead(1, True)


async def test_a_master_that_may_have_lost_some_of_its_first_epoch_keeps_where_it_starts() -> None:
    """Slaves know this epoch only: with another start they would have nothing in common with its log."""
    of = Machine()
    epochs = epoch_log(of)
    await written(of, epochs, 1, 5)
    assert epochs.sure_end is None
    end = int(of.store.end_offset)
    await epochs.lead(1, False)
    assert epochs.epochs.entries == (Epoch(1, 0),)
    for _ in range(5):
        of.turn()
    later = int(of.store.end_offset)
    assert epochs.sure_end is not None
    assert epochs.sure_end.told(2, later) == end
    await epochs.lead(2, True)
    assert epochs.sure_end is None, "another epoch says where the logs are the same"
