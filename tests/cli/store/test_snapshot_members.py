"""A copy of a running member of a set: it joins as a new member, and continues the log that it has."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from bolide.node.broker import BrokerNode
from tests.cli.running import invoke
from tests.node.replication.controlled import ControlledSet, controlled
from tests.node.replication.parts import OK, codes_of, same, send


async def copied(of: ControlledSet, member: BrokerNode, name: str) -> dict[str, int]:
    """Copy the store of a member to the folder of another broker."""
    words = ["store", "snapshot", of.folder / name, "--broker", member.address, "-n", of.names.address, "--json"]
    done = await asyncio.to_thread(invoke, *words)
    assert done.exit_code == 0, done.output
    report: dict[str, int] = json.loads(done.stdout)
    return report


async def test_copy_of_a_master_joins_its_set_as_a_new_member(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first, second = await of.pair(flush_disk_type="SYNC_FLUSH")
        assert codes_of(await send(first, 400)) == OK
        report = await copied(of, first, "c")
        assert report["linked_files"] > 1
        assert not list((tmp_path / "c").glob("brokerIdentity*"))
        assert (tmp_path / "c" / "epochFileCheckpoint").read_bytes() == (
            tmp_path / "a" / "epochFileCheckpoint"
        ).read_bytes()
        assert codes_of(await send(first, 50, first=400)) == OK
        third = await of.start("c")
        await of.all_in_sync(1, 2, 3)
        assert (tmp_path / "c" / "brokerIdentity").read_bytes() == b"DefaultCluster#broker-a#3"
        assert not list((tmp_path / "c").glob("truncated"))
        assert codes_of(await send(first, 10, first=450)) == OK
        await same(first, third)
        await same(first, second)
        oldest = tmp_path / "c" / "commitlog" / f"{0:020}"
        assert oldest.stat().st_nlink == 2, "the copied log was kept"


async def test_copy_of_a_slave_starts_as_a_single_broker(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first, second = await of.pair(flush_disk_type="SYNC_FLUSH")
        assert codes_of(await send(first, 400)) == OK
        await same(first, second)
        await copied(of, second, "alone")
        alone = await of.start("alone", enable_controller_mode=False, namesrv_addr="")
        assert int(alone.store.end_offset) == int(first.store.end_offset)
        await same(first, alone)
        assert codes_of(await send(alone, 10, first=400)) == OK
