"""Clients, groups, topics and brokers that come and go leave nothing behind: not in the broker, not in the name server,
not in a client that stays.

Everything runs in one simulation, so that the hours after which files and lists are cleaned cost seconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from bolide.admin.client import Admin
from bolide.client import (
    DEAD_LETTER,
    BolideError,
    ConsumeResult,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    Retry,
    RetryLater,
    TransactionProducer,
    TransactionState,
    lmq,
    sql,
)
from proof.simulation.cluster import Cluster, Simulation
from proof.simulation.process import Process
from proof.soak.census import census, grown, module_state

WARM_UP_ROUNDS, ROUNDS = 2, 4
QUIET_S = 4000.0
"""Files are kept for an hour; after that all but the last are gone."""
BOUNDED = (
    "Accumulator._lanes", "objects of Lane", "MessageSender.lines", "MessageSender.topic_lines", "objects of BoundLine",
    "FilterCache._others", "objects of PullFilter", *("LogWriter._good_names", "LogWriter._tags_codes"),
    "IndexService._prefixes", "OffsetMovedEvents._told", "bolide.client.instance.send_frame._cache",
    "bolide.client.messages.arguments._known_topics", "BrokerStats._samples", "objects of Sample",
    *(f"objects of {kind}" for kind in ("BooleanConstant", "Chain", "Constant", "Equal", "Expression", "Property")),
    *("Chain.operands", "Equal.", "Expression.", "_NamedPredicate.", "objects of _NamedPredicate", "Looks.spans"),
    *(f"objects of {kind}" for kind in ("RawFilter", "RawProperty", "ChainCheck", "PresenceCheck", "WholeCheck")),
    "ChainCheck.",
)  # fmt: skip
"""What remembers names or filters that it has seen, up to some thousands, and what keeps a figure for each hour."""
SETTINGS: dict[str, Any] = {
    "enable_property_filter": True,
    "enable_lmq": True,
    "enable_multi_dispatch": True,
    "enable_calc_filter_bit_map": True,
    "enable_consume_queue_ext": True,
    "trace_topic_enable": True,
    "recall_message_enable": True,
    "transaction_time_out": 1000,
    "transaction_check_interval": 1000,
    "file_reserved_time": 1,
    "delete_when": ";".join(f"{hour:02}" for hour in range(24)),
    "unused_group_expire_time": 600_000,
    "filter_data_clean_time_span": 600_000,
    "mapped_file_size_commit_log": 1 << 14,
    "mapped_file_size_consume_queue": 400,
    "mapped_file_size_consume_queue_ext": 4096,
    "mapped_file_size_timer_log": 520,
    "max_hash_slot_num": 10,
    "max_index_num": 40,
}


class Endings:
    """Commits every second transaction when it is asked, and rolls the others back at once."""

    async def execute(self, message: Message, argument: int) -> TransactionState:
        return TransactionState.UNKNOWN if argument % 2 else TransactionState.ROLLBACK

    async def check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(300):
        while not condition():
            await asyncio.sleep(0.05)


class Visit:
    """One round: a client that nobody has seen before, with a topic and groups of its own, does everything once."""

    def __init__(self, number: int, namesrv: str, process: Process) -> None:
        self.number = number
        self.topic = f"visit-{number}"
        self.group = f"visitor-{number}"
        self.namesrv = namesrv
        self.client: dict[str, Any] = {"world": process.world, "instance_name": f"visit-{number}"}
        self.came: list[str] = []

    async def run(self) -> None:
        async with Admin(self.namesrv, timeout=60, **self.client) as admin:
            if self.number % 2:
                await admin.create_topic(self.topic, queues=2, order=True)
                await admin.create_group(self.group)
            await self.traffic(admin)
            await admin.put_kv("visits", self.topic, "x")
            await admin.delete_kv("visits", self.topic)
            await self.leave(admin)

    async def traffic(self, admin: Admin) -> None:
        async with (
            Producer(f"{self.group}-p", self.namesrv, trace=True, timeout=30, **self.client) as producer,
            TransactionProducer(f"{self.group}-t", self.namesrv, Endings(), timeout=30, **self.client) as transactions,
        ):
            await producer.send(Message(self.topic, b"plain", tags="a", keys="k", properties={"n": "1"}))
            await producer.send_batch([Message(self.topic, b"batch", properties={"n": "1"}) for _ in range(2)])
            await producer.send(Message(self.topic, b"level", delay_level=1, properties={"n": "1"}))
            await producer.send(Message(self.topic, b"timer", delay=2, properties={"n": "1"}))
            dropped = await producer.send(Message(self.topic, b"dropped", delay=3))
            await producer.recall(self.topic, dropped.recall_handle)
            await producer.send(Message(self.topic, b"light", light_queues=["ann"], properties={"n": "1"}))
            await transactions.send_in_transaction(Message(self.topic, b"paid", properties={"n": "1"}), 1)
            await transactions.send_in_transaction(Message(self.topic, b"unpaid"), 2)
            await self.consume(producer)
            await admin.messages_by_key(self.topic, "k")
            await admin.consumer_progress(self.group)
            await admin.reset_offset(self.group, self.topic, "first")

    async def consume(self, producer: Producer) -> None:
        async def take(message: ReceivedMessage) -> None:
            if message.body == b"level" and message.reconsume_times == 0:
                raise RetryLater(1)
            self.came.append(message.body.decode())
            if message.body == b"level":
                raise RetryLater(DEAD_LETTER)
            if message.body == b"ask":
                await push.reply_to(message, b"answer")

        async def in_order(message: ReceivedMessage) -> ConsumeResult:
            self.came.append("in order")
            return ConsumeResult.SUCCESS

        options = {"start_from": "first", **self.client}
        push = PushConsumer(self.group, self.namesrv, trace=True, **options)
        push.subscribe(self.topic, sql(f"n = {self.number}  OR n = 1 OR n IS NULL"), take)
        orderly = PushConsumer(f"{self.group}-o", self.namesrv, orderly=True, **options)
        orderly.subscribe(self.topic, "*", in_order)
        light = PushConsumer(f"{self.group}-l", self.namesrv, **options)
        light.subscribe(lmq("ann"), "*", in_order, parent=self.topic)
        pull = PullConsumer(f"{self.group}-r", self.namesrv, **options)
        pull.subscribe(self.topic)
        async with push, orderly, light, pull:
            while not await pull.poll(1):
                pass
            await pull.pull(pull.assignment()[0], 1 << 30)  # beyond the end: an event is stored
            assert (await producer.request(Message(self.topic, b"ask"), timeout=60)).body == b"answer"
            wanted = {"plain", "batch", "level", "timer", "light", "paid", "ask", "in order"}
            await until(lambda: wanted <= set(self.came))
            assert not {"dropped", "unpaid"} & set(self.came)

    async def leave(self, admin: Admin) -> None:
        for suffix in ("", "-o", "-l", "-r"):
            for topic in (f"%RETRY%{self.group}{suffix}", f"%DLQ%{self.group}{suffix}"):
                await admin.delete_topic(topic)
            await admin.delete_group(self.group + suffix, remove_offset=True)
        await admin.delete_topic(self.topic)


class Resident:
    """A client that stays: it sends to topics that go, and asks the name server about them."""

    def __init__(self) -> None:
        self.producer: Producer | None = None
        self.consumer: PushConsumer | None = None
        self.got = 0
        self.leave = False

    async def run(self, namesrv: str, process: Process) -> None:
        async def take(message: ReceivedMessage) -> None:
            self.got += 1

        self.consumer = PushConsumer("resident", namesrv, start_from="first", world=process.world)
        self.consumer.subscribe("resident", "*", take)
        self.producer = Producer("resident", namesrv, timeout=30, retry=Retry(latency_faults=True), world=process.world)
        async with self.producer, self.consumer:
            while not self.leave:
                await asyncio.sleep(1)

    async def round(self, number: int) -> None:
        assert self.producer is not None and self.consumer is not None
        for _ in range(4):  # one in each queue
            await self.producer.send(Message("resident", b"x" * 500))
        await self.producer.send(Message(f"passing-{number}", b"x"))
        try:
            await self.producer.recall("resident", "nonsense")
        except BolideError:
            pass  # refused


async def pass_time(cluster: Cluster, seconds: float) -> None:
    """Virtual seconds: they cost next to nothing."""
    end = cluster.now + seconds
    while cluster.now < end:
        await cluster.sleep(end - cluster.now)


async def knock(cluster: Cluster, number: int, address: str) -> None:
    """A connection that sends half a frame, and one that is cut."""

    async def main(process: Process) -> None:
        for data in (b"\x00\x00\x01\x00", b"\xff" * 40):
            connection = await process.world.connect(asyncio.Protocol, address, 10911, None)
            del connection, data

    await cluster.ended(cluster.start(f"knock-{number}", main))


async def rounds(cluster: Cluster, resident: Resident, namesrv: Process, numbers: range) -> None:
    address = f"{namesrv.host.ip}:9876"
    for number in numbers:
        visits: list[Visit] = []

        async def visit(process: Process, number: int = number) -> None:
            await Visit(number, address, process).run()

        client = cluster.start(f"client-{number}", visit)
        await cluster.ended(client, 1200)
        await cluster.call(cluster.processes["resident"], lambda number=number: resident.round(number), 120)
        del visits
        guest = await cluster.start_broker(f"guest-{number}", SETTINGS, [namesrv])
        await pass_time(cluster, 5)
        if number % 2:
            await cluster.stop(guest.name)
        else:
            cluster.kill(guest.name)
            await pass_time(cluster, 180)  # until the name server has missed it

        async def tidy(process: Process, number: int = number) -> None:
            async with Admin(address, timeout=60, world=process.world) as admin:
                await admin.delete_topic(f"passing-{number}")

        await cluster.ended(cluster.start(f"tidy-{number}", tidy), 300)


def count(cluster: Cluster, resident: Resident) -> Counter[str]:
    roots: dict[str, object] = {
        "broker": cluster.node("broker"), "names": cluster.node("names"), "producer": resident.producer,
        "consumer": resident.consumer, **module_state("bolide"),
    }  # fmt: skip
    found = census(roots)
    disk = cluster.disks["broker"]
    waiting = ["/store"]
    while waiting:
        folder = waiting.pop()
        for name in disk.list_dir(folder):
            path = f"{folder}/{name}"
            waiting.append(path)
            found[f"entries below /{'/'.join(path.split('/')[1:3])}"] += 1
    return found


async def scenario(cluster: Cluster) -> dict[str, tuple[int, int]]:
    namesrv = await cluster.start_namesrv("names")
    await cluster.start_broker("broker", SETTINGS, [namesrv])
    resident = Resident()
    address = f"{namesrv.host.ip}:9876"
    cluster.start("resident", lambda process: resident.run(address, process))
    await cluster.until(lambda: resident.consumer is not None, "the resident client")
    await rounds(cluster, resident, namesrv, range(WARM_UP_ROUNDS))
    await pass_time(cluster, QUIET_S)
    before = count(cluster, resident)
    await rounds(cluster, resident, namesrv, range(WARM_UP_ROUNDS, WARM_UP_ROUNDS + ROUNDS))
    await pass_time(cluster, QUIET_S)
    after = count(cluster, resident)
    resident.leave = True
    await pass_time(cluster, 5)
    return {
        label: counts
        for label, counts in grown(before, after, ROUNDS // 2).items()
        if not label.removesuffix("[]").startswith(BOUNDED) or counts[1] - counts[0] > WARM_UP_ROUNDS * 100
    }


@pytest.mark.slow
def test_churn_leaves_no_entries() -> None:
    result = Simulation(seed=11).run(scenario)
    assert result.value == {}  # what has grown: entries before and after
