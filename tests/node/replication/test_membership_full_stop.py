"""Sets whose brokers all stop: the longest log wins, and a copy of a store takes nobody's place."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from proof.kit.waiting import until
from tests.node.replication.controlled import ControlledSet, controlled
from tests.node.replication.parts import OK, codes_of, send

SETTINGS = {"all_ack_in_sync_state_set": True, "flush_disk_type": "SYNC_FLUSH"}


async def three(of: ControlledSet) -> None:
    await of.leads(await of.start("a", **SETTINGS))
    for name, ids in (("b", (1, 2)), ("c", (1, 2, 3))):
        await of.start(name, **SETTINGS)
        await of.all_in_sync(*ids)


async def stop_all(of: ControlledSet) -> None:
    """The controller stops first, so that no broker is taken out of the set."""
    await of.controller.stop()
    for name in list(of.running):
        await of.stop(name)
    of.controller = of.another_controller()
    await of.controller.start()


async def test_master_serves_only_after_the_controller_knows_that_it_leads(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        await three(of)
        await of.stop("a")
        await until(lambda: any(of.running[name].parts.role.may_write for name in ("b", "c")))
        one = of.controller._controller.sets["broker-a"].value
        assert (one.master_epoch, one.former) == (2, ())
        assert one.office is not None
        assert one.office.epoch == 2


async def test_an_older_copy_that_starts_first_waits_for_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with controlled(tmp_path) as of:
        await three(of)
        first = of.master()
        assert codes_of(await send(first, 10)) == OK
        older = tmp_path / "older"
        shutil.copytree(tmp_path / "b" / "commitlog", older / "commitlog")
        for name in ("brokerIdentity", "brokerIdentity-life", "epochFileCheckpoint"):
            shutil.copy(tmp_path / "b" / name, older / name)
        assert codes_of(await send(first, 10)) == OK
        end = int(first.store.end_offset)
        await stop_all(of)
        shutil.rmtree(tmp_path / "b")
        older.rename(tmp_path / "b")
        with caplog.at_level(logging.WARNING):
            second = await of.start("b", **SETTINGS)
            await until(lambda: "the election waits for 1 (" in caplog.text)
        assert not second.parts.role.may_write
        again = await of.start("a", **SETTINGS)
        third = await of.start("c", **SETTINGS)
        await until(lambda: again.parts.role.may_write or third.parts.role.may_write)
        assert int(of.master().store.end_offset) == end


async def test_replica_stops_following_when_another_broker_has_taken_its_id(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A copy may register while the controller does not hear from the original, which still reaches the master."""
    async with controlled(tmp_path) as of:
        _, second = await of.pair(**SETTINGS)
        sets = of.controller._controller.sets
        known = sets["broker-a"].value
        moved = replace(known.replicas[2], address="10.0.0.9:1", life="copy")
        with caplog.at_level(logging.WARNING):
            sets["broker-a"] = sets["broker-a"]._replace(value=replace(known, replicas={**known.replicas, 2: moved}))
            await until(lambda: "a broker at 10.0.0.9:1 has registered as replica 2" in caplog.text)
            side = second._replication.side
            assert side is not None and side.side is None, "it follows nobody"
            await until(lambda: "move its files" in caplog.text)
        sets["broker-a"] = sets["broker-a"]._replace(value=replace(sets["broker-a"].value, replicas=known.replicas))
        await of.all_in_sync(1, 2)
        assert codes_of(await send(of.master(), 5)) == OK


async def test_a_copied_folder_is_refused_while_its_original_lives_and_afterwards(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with controlled(tmp_path) as of:
        await three(of)
        await of.stop("c")
        await of.all_in_sync(1, 2)
        shutil.copytree(tmp_path / "c", tmp_path / "clone")
        await of.start("c", **SETTINGS)
        await of.all_in_sync(1, 2, 3)
        with caplog.at_level(logging.WARNING):
            clone = await of.start("clone", **SETTINGS)
            await until(lambda: "last registered from another start of its broker" in caplog.text)
        assert clone._replication.side is not None and clone._replication.side.side is None, "it follows nobody"
        await of.stop("c")
        await of.all_in_sync(1, 2)
        assert clone._replication.side.side is None
        assert codes_of(await send(of.master(), 5)) == OK
