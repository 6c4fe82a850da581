"""Offsets in a store of the user's: loaded, saved when they change, and asked again while they cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bolide.client import ArgumentError, LocalError, MessageQueue, PullConsumer, PushConsumer
from bolide.client.consuming.custom_offsets import CustomOffsets
from bolide.remoting import codes
from proof.kit.waiting import until
from tests.client.consumer_parts import Q0, Q1, consumer, fill, pull_consumer
from tests.client.messages.escapes import ESCAPES
from tests.client.scripted_broker import ScriptedBroker


class Table:
    """A store in memory that notes what it is asked."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, MessageQueue], int] = {}
        self.saves: list[dict[MessageQueue, int]] = []
        self.broken = False

    async def load(self, group: str, queue: MessageQueue) -> int:
        if self.broken:
            raise OSError("the disk is gone")
        return self.rows.get((group, queue), -1)

    async def save(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        if self.broken:
            raise OSError("the disk is gone")
        self.saves.append(dict(offsets))
        self.rows.update({(group, queue): offset for queue, offset in offsets.items()})


async def test_a_push_consumer_continues_where_its_store_says_and_tells_no_broker(broker: ScriptedBroker) -> None:
    table = Table()
    table.rows["G", MessageQueue("T", "broker-a", 0)] = 2
    seen: list[bytes] = []
    push = consumer(broker, offset_store=table)
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    broker.on_loop(lambda: [broker.store("T", 0, b"%d" % number, "") for number in range(4)])
    async with push:
        await until(lambda: len(seen) == 2, "the last two")
    assert sorted(seen) == [b"2", b"3"]
    assert table.rows["G", MessageQueue("T", "broker-a", 0)] == 4
    assert not broker.requests(codes.QUERY_CONSUMER_OFFSET)
    assert not broker.requests(codes.UPDATE_CONSUMER_OFFSET)
    assert all(pull.ext()["commitOffset"] == "0" for pull in broker.requests(codes.PULL_MESSAGE))


async def test_a_pull_consumer_commits_to_its_store(broker: ScriptedBroker) -> None:
    fill(broker, 4)
    table = Table()
    async with pull_consumer(broker, offset_store=table, auto_commit=False) as reader:
        await reader.assign([Q0])
        await reader.poll()
        assert table.rows == {}
        await reader.commit()
        assert await reader.committed(Q0) == 2
    assert table.rows == {("G", Q0): 2}


async def test_only_what_has_changed_is_saved_and_a_failed_save_is_repeated() -> None:
    table = Table()
    offsets = CustomOffsets(table, "G")
    offsets.update(Q0, 1)
    offsets.update(Q1, 5)
    assert (offsets.get(Q0), offsets.carry(Q0)) == (1, -1)
    await offsets.persist([Q0, Q1], wait=True)
    offsets.update(Q0, 2)
    await offsets.persist([Q0, Q1], wait=False)
    await offsets.persist([Q0, Q1], wait=True)
    assert table.saves == [{Q0: 1, Q1: 5}, {Q0: 2}]
    table.broken = True
    offsets.update(Q1, 6)
    await offsets.persist([Q0, Q1], wait=True)
    with pytest.raises(LocalError, match=r"cannot load the offset of T@broker-a:0: the disk is gone"):
        await offsets.load(Q0)
    table.broken = False
    await offsets.persist([Q0, Q1], wait=True)
    assert table.saves[2:] == [{Q1: 6}]


@pytest.mark.parametrize("kind", ESCAPES)
async def test_whatever_a_store_raises_is_a_failure_of_that_call(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    class Raises(Table):
        async def load(self, group: str, queue: MessageQueue) -> int:
            raise kind

        async def save(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
            raise kind

    offsets = CustomOffsets(Raises(), "G")
    offsets.update(Q0, 1)
    await offsets.persist([Q0], wait=True)
    assert "1 offsets of G are not stored" in caplog.text
    with pytest.raises(LocalError, match="cannot load the offset"):
        await offsets.load(Q0)


@pytest.mark.parametrize("loaded", [None, "5", True])
async def test_a_store_that_loads_no_number_is_named(loaded: Any) -> None:
    table = Table()
    table.rows["G", Q0] = loaded
    with pytest.raises(LocalError, match=r"offset store of G loaded .* return an int, or -1 if no offset is stored"):
        await CustomOffsets(table, "G").load(Q0)


async def test_a_save_that_ends_after_its_queue_was_given_back_keeps_no_later_one_from_being_saved() -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    class Slow(Table):
        async def save(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
            await super().save(group, offsets)
            asked.set()
            await answered.wait()

    table = Slow()
    offsets = CustomOffsets(table, "G")
    offsets.update(Q0, 5)
    saving = asyncio.create_task(offsets.persist([Q0], wait=True))
    await asked.wait()
    offsets.forget(Q0)
    answered.set()
    await saving
    table.rows["G", Q0] = 9  # another member read on; then the queue is ours again, and a seek goes back
    offsets.update(Q0, 5)
    await offsets.persist([Q0], wait=True)
    assert table.rows["G", Q0] == 5


@pytest.mark.parametrize("kind", [PushConsumer, PullConsumer])
def test_invalid_offset_store_is_rejected(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"has no method load\(group, queue\)"):
        kind("G", offset_store={})
    with pytest.raises(ArgumentError, match="give one of them"):
        kind("G", offset_store=Table(), offset_folder=tmp_path)


@pytest.mark.parametrize("make", [consumer, pull_consumer])
async def test_an_offset_store_may_close_its_consumer(make: Any, broker: ScriptedBroker) -> None:
    class Closing(Table):
        async def save(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
            await reader.close()
            await super().save(group, offsets)

    fill(broker, 2)
    table = Closing()
    reader = make(broker, offset_store=table)
    if make is consumer:
        reader.subscribe("T", "*", lambda message: None)
        await reader.start()
        await until(lambda: reader.position(Q0) == 1, "the message to be consumed")
    else:
        await reader.start()
        await reader.assign([Q0])
        assert await reader.poll()
    await reader.commit()
    await reader.close()
    assert table.rows["G", Q0] == 1
    assert not broker.members.get("G")
