"""The world as a seam: a name server, a broker and clients run on virtual time in one thread, and repeat by a seed."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from bolide.broker.core.options import BrokerOptions
from bolide.client import Message, Producer, PullConsumer, PushConsumer
from bolide.client.messages.received import ReceivedMessage
from bolide.layout.record import decode_records
from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.namesrv import NamesrvNode
from proof.simulation.world import EPOCH_MS, SimulatedWorld, Universe, VirtualLoop

SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 18,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 500,
    "max_index_num": 2000,
    "mapped_file_size_timer_log": 1 << 16,
}
MESSAGES = 20


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def simulate(seed: int) -> tuple[bytes, list[bytes], float]:
    """One run: the bytes of the log, what was consumed in its order, and the seconds that passed in it."""
    universe = Universe(seed)
    ours = universe.world("10.0.0.2", 200)
    names = NamesrvOptions(bind_address="10.0.0.1", kv_config_path="/namesrv/kv.json")
    namesrv = NamesrvNode(names, world=universe.world("10.0.0.1", 100))
    await namesrv.start()
    node = BrokerNode(
        BrokerOptions(
            bind_address="10.0.0.2", store_path_root_dir="/store", namesrv_addr=namesrv.address,
            flush_disk_type="SYNC_FLUSH", **SMALL,
        ),
        world=ours,
    )  # fmt: skip
    await node.start()
    got: list[bytes] = []

    def plain(message: ReceivedMessage) -> None:  # runs in the pool of the consumer
        got.append(message.body)

    client = universe.world("10.0.0.3", 300)
    async with (
        Producer("p", namesrv.address, world=client) as producer,
        PushConsumer("g", namesrv.address, start_from="first", world=client) as push,
    ):
        push.subscribe("T", "*", plain)
        sent = await asyncio.gather(*(producer.send(Message("T", b"%d" % n)) for n in range(MESSAGES)))
        assert {result.status.name for result in sent} == {"SEND_OK"}
        await producer.send(Message("T", b"late", delay_level=5))  # one minute
        await until(lambda: len(got) == MESSAGES + 1)
        async with PullConsumer("h", namesrv.address, start_from="first", world=client) as pull:
            pull.subscribe("T")
            polled: list[bytes] = []
            while len(polled) <= MESSAGES:
                polled += [message.body for message in await pull.poll(10)]
        assert sorted(polled) == sorted(got)
    await node.stop()
    await namesrv.stop()
    assert universe.ports == {}
    return log_of(ours), got, universe.loop.time()


def log_of(world: SimulatedWorld) -> bytes:
    names = world.disk.list_dir("/store/commitlog")
    return b"".join(world.disk.read_file(f"/store/commitlog/{name}") or b"" for name in names)


def run(seed: int) -> tuple[bytes, list[bytes], float]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(simulate(seed))


def test_one_seed_gives_one_run() -> None:
    began, threads = time.monotonic(), threading.active_count()
    first, again, other = run(1), run(1), run(2)
    assert first == again
    assert other[0] != first[0]
    log, got, passed = first
    assert sorted(got) == sorted([b"%d" % n for n in range(MESSAGES)] + [b"late"]) and got[-1] == b"late"
    assert passed > 60 > time.monotonic() - began  # a minute of delay takes no minute
    assert threading.active_count() == threads
    records = decode_records(log[: log.rindex(b"late") + 400].rstrip(b"\0"))
    assert {record.store_timestamp // 1_000_000 for record in records} == {EPOCH_MS // 1_000_000}
