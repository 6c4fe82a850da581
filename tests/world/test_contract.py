"""The world as a seam: a name server, a broker and clients run on virtual time in one thread, and repeat by a seed."""

from __future__ import annotations

import asyncio
import threading
import time

from bolide.client import Message, Producer, PullConsumer, PushConsumer
from bolide.client.messages.received import ReceivedMessage
from bolide.layout.record import decode_records
from proof.simulation.cluster import Cluster, Simulation
from proof.simulation.owner import Disk
from proof.simulation.process import Process
from proof.simulation.scheduler import EPOCH_MS

MESSAGES = 20


async def traffic(cluster: Cluster) -> tuple[bytes, list[bytes]]:
    """One run: the bytes of the log, and what was consumed in its order."""
    names = await cluster.start_namesrv("names")
    await cluster.start_broker("broker", {"flush_disk_type": "SYNC_FLUSH"}, [names])
    address = f"{names.host.ip}:9876"
    got: list[bytes] = []

    def plain(message: ReceivedMessage) -> None:  # runs in the pool of the consumer
        got.append(message.body)

    async def client(process: Process) -> None:
        world = process.world
        async with (
            Producer("p", address, world=world) as producer,
            PushConsumer("g", address, start_from="first", world=world) as push,
        ):
            push.subscribe("T", "*", plain)
            sent = await asyncio.gather(*(producer.send(Message("T", b"%d" % n)) for n in range(MESSAGES)))
            assert {result.status.name for result in sent} == {"SEND_OK"}
            await producer.send(Message("T", b"late", delay_level=5))  # one minute
            while len(got) <= MESSAGES:
                await asyncio.sleep(0.01)
            async with PullConsumer("h", address, start_from="first", world=world) as pull:
                pull.subscribe("T")
                polled: list[bytes] = []
                while len(polled) <= MESSAGES:
                    polled += [message.body for message in await pull.poll(10)]
            assert sorted(polled) == sorted(got)

    await cluster.ended(cluster.start("client", client), 600)
    await cluster.stop("broker")
    await cluster.stop("names")
    assert cluster.network.ports == {}
    return log_of(cluster.disks["broker"]), got


def log_of(disk: Disk) -> bytes:
    names = disk.list_dir("/store/commitlog")
    return b"".join(disk.read_file(f"/store/commitlog/{name}") or b"" for name in names)


def run(seed: int) -> tuple[bytes, list[bytes], float, str]:
    result = Simulation(seed).run(traffic)
    assert result.faults == []
    value = result.value
    assert isinstance(value, tuple)
    return (*value, result.seconds, result.digest)


def test_runs_with_the_same_seed_are_equal() -> None:
    began, threads = time.monotonic(), threading.active_count()
    first, again, other = run(1), run(1), run(2)
    assert first == again
    assert other[0] != first[0]
    log, got, passed, _ = first
    assert sorted(got) == sorted([b"%d" % n for n in range(MESSAGES)] + [b"late"]) and got[-1] == b"late"
    assert passed > 60 > time.monotonic() - began  # a minute of delay takes no minute
    records = decode_records(log[: log.rindex(b"late") + 400].rstrip(b"\0"))
    assert all(abs(record.store_timestamp - EPOCH_MS) < 120_000 for record in records)
    assert threads <= threading.active_count()
