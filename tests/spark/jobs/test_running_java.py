"""What other tests show with our broker, once with Java's 5.5.0: jobs, exactly once in a session, its store live."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import bolide.spark
from bolide.client import Message, MessageQueue
from bolide.layout.names import TRACE_TOPIC
from bolide.spark.jobs.archive import archive, read_back
from bolide.spark.jobs.files import export_topic, import_files
from bolide.spark.jobs.mirror import MIRRORED, mirror, translate_offsets
from bolide.spark.jobs.redrive import redrive
from bolide.spark.jobs.replay import replay
from bolide.spark.jobs.stats import stats
from bolide.spark.jobs.trace import trace_rows
from proof.kit.waiting import PROCESS_PATIENCE, wait_until
from tests.client.patient import Producer, PushConsumer
from tests.client.patient_blocking import Admin
from tests.spark.jobs.buried import bury, failed_sends
from tests.spark.target import Target

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.parametrize("rocketmq", [pytest.param("java", marks=pytest.mark.java)], indirect=True),
]
COUNT = 60


def messages(topic: str, first: int = 0, count: int = COUNT) -> list[Message]:
    numbers = range(first, first + count)
    return [Message(topic, b"%03d" % n, tags="AB"[n % 2], keys=[f"k{n}"], properties={"n": str(n)}) for n in numbers]


def numbers(rows: Any) -> list[int]:
    return sorted(int(row.body) for row in rows.select("body").collect())


def load(spark: Any, target: Target, topic: str, count: int) -> Any:
    """The rows of a topic once there are so many: Java answers a send before its queues know the message."""
    target.wait_for(topic, count)
    return spark.read.format("rocketmq").options(**target.options(topic)).load()


@pytest.fixture
def filled(rocketmq: Target, topic: str) -> dict[str, str]:
    """Options of a topic with COUNT messages."""
    rocketmq.create_topic(topic, queues=3)
    rocketmq.send(messages(topic))
    return dict(rocketmq.options(topic))


def test_a_stream_is_copied_exactly_once_and_its_group_knows(
    spark: Any, rocketmq: Target, topic: str, filled: dict[str, str], tmp_path: Path
) -> None:
    out = f"{topic}_out"
    rocketmq.create_topic(out, queues=2)
    with Admin(rocketmq.namesrv_addr) as admin:
        admin.create_group(topic)

    def copy() -> None:
        options = filled | {"startingOffsets": "earliest", "group": topic, "commitOffsets": "true"}
        rows = spark.readStream.format("rocketmq").options(**options, maxOffsetsPerTrigger="25").load()
        writer = rows.select("body", "tags").writeStream.format("rocketmq")
        writer = writer.options(namesrv=rocketmq.namesrv_addr, topic=out, mode="exactly-once")
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(300)

    copy()
    # Killed after the sink's commit and before Spark's: the batch is run again.
    last = max(int(path.name) for path in (tmp_path / "commits").iterdir() if path.name.isdecimal())
    for name in (str(last), f".{last}.crc"):
        (tmp_path / "commits" / name).unlink(missing_ok=True)
    copy()
    assert numbers(load(spark, rocketmq, out, COUNT)) == list(range(COUNT))
    with Admin(rocketmq.namesrv_addr) as admin:
        assert admin.consumer_progress(topic, topic).lag <= 25  # the last batch of a run is not told
    assert load(spark, rocketmq, out, COUNT).where("transaction_state = 'commit'").count() == COUNT


def test_conditions_and_patterns(spark: Any, rocketmq: Target, topic: str, filled: dict[str, str]) -> None:
    wanted = "tags = 'A' AND queue_offset >= 2 AND queue_id IN (0, 1) AND length(body) = 3"
    pattern = {"namesrv": rocketmq.namesrv_addr, "subscribePattern": f"{topic[:-3]}..."}
    read = bolide.spark.read(spark, **pattern).where(wanted)
    assert {"tags", "offsetFrom", "queueIds"} <= set(read.pushed())
    everything = load(spark, rocketmq, topic, COUNT)
    assert numbers(read.load()) == numbers(everything.where(wanted)) != []
    by_key = bolide.spark.read(spark, **filled).where("array_contains(keys, 'k7')")
    assert numbers(by_key.load()) == [7]


def test_archived_seen_with_what_came_since_and_sent_again(
    spark: Any, rocketmq: Target, topic: str, filled: dict[str, str], tmp_path: Path
) -> None:
    out, again = str(tmp_path / "archive"), f"{topic}_again"
    options = filled | {"startingTimestamp": "0"}
    assert archive(spark, out, options | {"maxOffsetsPerTrigger": "25"}).messages == COUNT
    rocketmq.send(messages(topic, COUNT, 5))
    view = read_back(spark, out, options)
    assert numbers(view) == list(range(COUNT + 5))
    assert numbers(view.where("NOT archived")) == list(range(COUNT, COUNT + 5))
    assert archive(spark, out, options).messages == 5
    rocketmq.create_topic(again, queues=2)
    target = {"namesrv": rocketmq.namesrv_addr, "mode": "exactly-once"}
    mark = str(tmp_path / "mark")
    done = replay(spark, out, target, checkpoint=mark, where="tags = 'A'", topic=again, original_time=True)
    evens = list(range(0, COUNT + 5, 2))
    assert done.messages == len(evens)
    sent = load(spark, rocketmq, again, len(evens))
    assert numbers(sent) == evens
    born = load(spark, rocketmq, topic, COUNT + 5).where("tags = 'A'").select("body", "born_timestamp").collect()
    assert sorted(sent.select("body", "born_timestamp").collect()) == sorted(born)
    counted = stats(load(spark, rocketmq, topic, COUNT + 5))
    assert [(one.topic, one.messages) for one in counted.topics] == [(topic, COUNT + 5)]
    assert Counter({one.name: one.messages for one in counted.tags}) == {"A": len(evens), "B": COUNT + 5 - len(evens)}


def test_exported_and_imported(
    spark: Any, rocketmq: Target, topic: str, filled: dict[str, str], tmp_path: Path
) -> None:
    back, files = f"{topic}_back", str(tmp_path / "files")
    rocketmq.create_topic(back, queues=2)
    assert export_topic(spark, files, filled, file_format="csv").messages == COUNT
    target = {"namesrv": rocketmq.namesrv_addr}
    into = {"topic": back, "file_format": "csv", "checkpoint": str(tmp_path / "mark")}
    assert import_files(spark, files, target, **into).messages == COUNT
    same = ("body", "tags", "keys", "properties.n AS n")
    old, new = (load(spark, rocketmq, name, COUNT).selectExpr(*same).collect() for name in (topic, back))
    assert sorted(new) == sorted(old)


def test_mirrored_with_a_group(
    spark: Any, rocketmq: Target, topic: str, filled: dict[str, str], tmp_path: Path
) -> None:
    target, group = {"namesrv": rocketmq.namesrv_addr}, f"g_{topic}"[:60]
    rocketmq.create_topic(f"m_{topic}", queues=2)
    done = mirror(spark, filled | {"maxOffsetsPerTrigger": "25"}, target, checkpoint=str(tmp_path), prefix="m_")
    assert done.messages == COUNT
    rows = load(spark, rocketmq, f"m_{topic}", COUNT).collect()
    assert sorted(int(row.body) for row in rows) == list(range(COUNT))
    with Admin(rocketmq.namesrv_addr) as admin:
        admin.create_group(group)
        admin.set_group_offset(group, MessageQueue(topic, rocketmq.broker_name, 1), 4)
        admin.set_group_offset(group, MessageQueue(topic, rocketmq.broker_name, 2), 10_000)
        [moved] = translate_offsets(spark, filled, target, [topic], [group], prefix="m_")
        told = {
            queue: admin.group_offset(group, MessageQueue(queue.topic, queue.broker, queue.queue_id))
            for queue in moved.offsets
        }
    assert told == moved.offsets
    starts = {queue.queue_id: offset for queue, offset in moved.offsets.items()}
    for row in rows:
        _, queue_id, offset = row.properties[MIRRORED].split(":")
        if int(offset) >= {"0": 0, "1": 4, "2": 10_000}[queue_id]:
            assert row.queue_offset >= starts[row.queue_id], "no message is left out that the group had not consumed"


def test_dead_letters_return(
    spark: Any, rocketmq: Target, topic: str, filled: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    group, target = f"g_{topic}"[:60], {"namesrv": rocketmq.namesrv_addr}
    asyncio.run(bury(rocketmq.namesrv_addr, COUNT, topic, group))
    letters = f"%DLQ%{group}"
    with Admin(rocketmq.namesrv_addr) as admin:
        wait_until(lambda: letters in admin.topics(), f"the name server knows {letters}")

    def dead() -> Counter[int]:
        return Counter(numbers(load(spark, rocketmq, letters, COUNT)))

    wait_until(lambda: len(dead()) == COUNT, "all are dead letters")
    kept = dead()
    assert kept.total() <= COUNT + failed_sends(caplog.text)
    evens = sum(kept[n] for n in range(0, COUNT, 2))
    assert redrive(spark, group, target, where="tags = 'A'", limit=10).messages == 10
    assert redrive(spark, group, target, where="tags = 'A'").messages == evens - 10
    assert redrive(spark, group, target).messages == 0
    seen = Counter(numbers(load(spark, rocketmq, topic, COUNT + evens)))
    assert seen == {n: 1 + kept[n] if n % 2 == 0 else 1 for n in range(COUNT)}


def test_a_trace_in_its_topic(spark: Any, rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic, queues=1)

    async def work() -> str:
        seen: list[Any] = []
        arrived = asyncio.Event()

        def take(message: Any) -> None:
            seen.append(message)
            arrived.set()

        consumer = PushConsumer(f"c_{topic}"[:60], rocketmq.namesrv_addr, start_from="first", trace=True)
        consumer.subscribe(topic, "*", take)
        producer = Producer(f"p_{topic}"[:60], rocketmq.namesrv_addr, trace=True)
        async with producer, consumer:
            sent = await producer.send(Message(topic, b"traced", tags="A", keys="k1"))
            await asyncio.wait_for(arrived.wait(), PROCESS_PATIENCE)
        return sent.message_id

    message_id = asyncio.run(work())

    def story() -> list[Any]:
        rows = spark.read.format("rocketmq").options(**rocketmq.options(TRACE_TOPIC)).load()
        return trace_rows(rows).where(f"message_id = '{message_id}' AND consumed = 1").collect()

    wait_until(lambda: len(story()) == 1, "the trace has arrived")
    [row] = story()
    assert (row.topic, row.tags, row["keys"], row.send_ok, row.body_length) == (topic, "A", ["k1"], True, 6)


def test_store_of_a_running_java_broker_is_readable(
    spark: Any, rocketmq: Target, topic: str, filled: dict[str, str]
) -> None:
    def stored(table: str, **options: str) -> Any:
        return spark.read.format("rocketmq-store").options(table=table, **options).load(str(rocketmq.store))

    same = ("body", "tags", "keys", "properties", "queue_id", "queue_offset", "store_timestamp", "offset_message_id")
    live = load(spark, rocketmq, topic, COUNT).selectExpr(*same, "message_id").collect()
    files = stored("messages", subscribe=topic).selectExpr(*same, "message_id").collect()
    order = ("queue_id", "queue_offset")
    assert sorted(files, key=lambda row: [row[name] for name in order]) == sorted(
        live, key=lambda row: [row[name] for name in order]
    )
    units = stored("consume_queue").where(f"topic = '{topic}'")
    assert units.count() == COUNT
    wait_until(lambda: stored("topics").where(f"topic = '{topic}'").count() == 1, "the topic is in its file")
    assert stored("index").count() >= COUNT
    assert stored("groups").count() > 0
    assert stored("offsets").where("queue_offset < 0").count() == 0
