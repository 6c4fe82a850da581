"""Decisions in one file: kept before they count, read as they were, and never read from an older copy."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from bolide.controller.consensus import LeadershipLost, Member, StoreUnavailable
from bolide.controller.replica_set import StateDamaged
from bolide.node.controller.file_store import FileStore
from bolide.node.machine.node_world import RealNodeWorld
from bolide.store.disk.files import FileLocked
from proof.kit.waiting import PATIENCE
from tests.node.controller.kept import FailingFiles, one_set

ME = Member("n0", "127.0.0.1:9877")


async def opened(path: Path, world: Any = None) -> FileStore:
    store = FileStore(world or RealNodeWorld(), str(path), ME)
    await store.start()
    await store.lead()
    return store


async def test_stored_sets_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "sets.json"
    store = await opened(path)
    assert await store.load() == {}
    assert await store.change(one_set(1), 0) == 1
    assert await store.change(one_set(2), 1) == 2
    with pytest.raises(LeadershipLost, match="revision 2, not 1"):
        await store.change(one_set(3), 1)
    await store.stop()
    again = await opened(path)
    assert (again.leads, again.leadership.leader, again.leadership.peers) == (True, ME, (ME,))
    kept = await again.load()
    assert kept["b"] == (one_set(2), 2)
    await again.stop()
    assert not again.leads


async def test_two_controllers_do_not_share_a_file(tmp_path: Path) -> None:
    store = await opened(tmp_path / "sets.json")
    with pytest.raises(FileLocked):
        await opened(tmp_path / "sets.json")
    await store.stop()
    await (await opened(tmp_path / "sets.json")).stop()


@pytest.mark.parametrize("text", ["{", '{"format":2,"sets":{}}', '{"format":1,"sets":{"b":{"revision":1,"set":{}}}}'])
async def test_a_file_that_cannot_be_read_is_refused_and_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sets.json"
    path.write_text(text)
    for _ in range(2):
        with pytest.raises(StateDamaged, match=r"sets\.json"):
            await opened(path)
    assert path.read_text() == text


async def test_file_with_a_changed_digit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sets.json"
    store = await opened(path)
    await store.change(one_set(1), 0)
    await store.stop()
    text = path.read_text()
    for old, new in (('"revision":1', '"revision":3'), ('"masterEpoch":1', '"masterEpoch":5')):
        if old not in text:
            old, new = '"set":{', '"set":{ '
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(StateDamaged, match="does not match its checksum: replace it with an intact copy"):
            await opened(path)
    path.write_text(re.sub(r',"crc":\d+', "", text))  # of an older version
    await (await opened(path)).stop()


async def test_the_copy_from_before_is_never_read(tmp_path: Path) -> None:
    path = tmp_path / "sets.json"
    store = await opened(path)
    await store.change(one_set(1), 0)
    await store.stop()
    path.unlink()
    with pytest.raises(StateDamaged, match="restore the file"):
        await opened(path)


@pytest.mark.parametrize("failing", ["before", "after"])
async def test_after_a_failed_write_nothing_is_decided_until_the_disk_holds_what_memory_does(
    tmp_path: Path, failing: str
) -> None:
    files = FailingFiles()
    store = await opened(tmp_path / "sets.json", RealNodeWorld(files=files))
    await store.change(one_set(1), 0)
    files.failing = failing
    with pytest.raises(StoreUnavailable, match="could not be written"):
        await store.change(one_set(2), 1)
    await asyncio.wait_for(store.deposed(), PATIENCE)
    assert not store.leads
    with pytest.raises(LeadershipLost):
        await store.change(one_set(2), 1)
    with pytest.raises(StoreUnavailable):
        await store.lead()
    files.failing = ""
    await store.lead()
    assert store.leads and (await store.load())["b"] == (one_set(1), 1)
    await store.stop()
    again = await opened(tmp_path / "sets.json")
    assert (await again.load())["b"] == (one_set(1), 1)
    await again.stop()
