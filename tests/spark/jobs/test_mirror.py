"""A second cluster gets the first one's messages, and its groups resume there where they stopped here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message, MessageQueue
from bolide.spark.failures import JobFailed
from bolide.spark.jobs.mirror import MIRRORED, mirror, translate_offsets
from bolide.testing.broker import Broker
from tests.client.patient import Admin
from tests.spark.produce import send

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def other() -> Iterator[Broker]:
    with Broker(broker_name="other") as broker:
        yield broker


def test_messages_and_offsets_move_to_another_cluster(
    spark: Any, bolide_broker: Broker, other: Broker, tmp_path: Path
) -> None:
    here, there = {"namesrv": bolide_broker.namesrv_addr}, {"namesrv": other.namesrv_addr}
    bolide_broker.create_topic("T", queues=4)
    for prefixed in ("from_T", "T"):
        other.create_topic(prefixed, queues=3)
    results = send(
        bolide_broker.namesrv_addr,
        [Message("T", b"%03d" % n, tags="A", keys=[f"k{n}"], properties={"n": str(n)}) for n in range(120)],
    )
    mark = str(tmp_path / "mark")
    source = here | {"subscribe": "T"} | {"maxOffsetsPerTrigger": "50"}
    assert mirror(spark, source, there, checkpoint=mark, prefix="from_").messages == 120
    assert mirror(spark, source, there, checkpoint=mark, prefix="from_").messages == 0
    send(bolide_broker.namesrv_addr, [Message("T", b"%03d" % n) for n in range(120, 130)])
    assert mirror(spark, source, there, checkpoint=mark, prefix="from_").messages == 10

    old = {bytes(row.body): row for row in spark.read.format("rocketmq").options(**here).load("T").collect()}
    rows = spark.read.format("rocketmq").options(**there).load("from_T").collect()
    assert sorted(bytes(row.body) for row in rows) == sorted(old)
    for row in rows:
        was = old[bytes(row.body)]
        assert (row.message_id, row.born_timestamp, row.tags) == (was.message_id, was.born_timestamp, was.tags)
        assert row["keys"] == was["keys"]
        assert row.properties[MIRRORED] == f"{was.broker}:{was.queue_id}:{was.queue_offset}"
    assert len({bytes(row.body) for row in rows if row.message_id == results[7].message_id}) == 1

    check_translation(spark, bolide_broker, other, rows, old)

    # Mirrored back, nothing goes in a circle.
    back = there | {"subscribe": "from_T"}
    bolide_broker.create_topic("from_T")
    mirror(spark, back, here, checkpoint=str(tmp_path / "back"))
    assert spark.read.format("rocketmq").options(**here).load("from_T").count() == 0


def check_translation(spark: Any, bolide_broker: Broker, other: Broker, rows: list[Any], old: dict[bytes, Any]) -> None:
    """A group's offsets there: nothing it had not consumed is skipped, and no more is repeated than necessary."""
    here, there = {"namesrv": bolide_broker.namesrv_addr}, {"namesrv": other.namesrv_addr}
    # A group consumed some of each queue: at the other side all that it did not consume is at or after its offsets.
    committed = {0: 3, 1: 0, 2: 10_000, 3: 12}

    async def commit() -> None:
        async with Admin(bolide_broker.namesrv_addr) as admin:
            await admin.create_group("movers")
            for queue_id, offset in committed.items():
                queue = MessageQueue("T", old[b"000"].broker, queue_id)
                await admin.set_group_offset("movers", queue, min(offset, await admin.end_offset(queue)))

    asyncio.run(commit())
    with pytest.raises(JobFailed, match="Group movers not exist"):
        translate_offsets(spark, here, there, ["T"], ["movers"], prefix="from_")

    async def make_group() -> None:
        async with Admin(other.namesrv_addr) as admin:
            await admin.create_group("movers")

    asyncio.run(make_group())
    [moved] = translate_offsets(spark, here, there, ["T"], ["movers"], prefix="from_")
    for row in rows:
        was = old[bytes(row.body)]
        if was.queue_offset >= committed[was.queue_id]:
            assert row.queue_offset >= next(at for q, at in moved.offsets.items() if q.queue_id == row.queue_id)
    for queue, offset in moved.offsets.items():
        at = [row for row in rows if (row.queue_id, row.queue_offset) == (queue.queue_id, offset)]
        for row in at:  # no further back than needed
            was = old[bytes(row.body)]
            assert was.queue_offset >= committed[was.queue_id]

    async def asked() -> dict[int, int]:
        async with Admin(other.namesrv_addr) as admin:
            return {
                q.queue_id: await admin.group_offset("movers", MessageQueue(q.topic, q.broker, q.queue_id))
                for q in moved.offsets
            }

    assert asyncio.run(asked()) == {queue.queue_id: offset for queue, offset in moved.offsets.items()}
