"""A small scenario with every fault of the machine in it: its tests run it, and `python -m` prints what it led to.

`burst-7` is a burst of sends from seed 7."""

from __future__ import annotations

import asyncio
import sys
import zlib

from bolide.client import Message, Producer, PushConsumer
from bolide.client.messages.received import ReceivedMessage
from bolide.errors import BolideError
from bolide.testing.files import SimulatedFiles
from proof.simulation.cluster import Cluster, Result, Simulation
from proof.simulation.process import Process

BROKERS = ("broker-a", "broker-b")
SETTINGS = {"flush_disk_type": "SYNC_FLUSH", "broker_cluster_name": "C"}
PATIENCE = {"timeout": 2.0, "retries": 1}


async def scenario(cluster: Cluster, faults: int = 4) -> tuple[list[str], list[str]]:
    """The messages that were acknowledged, and those that were consumed."""
    names = [await cluster.start_namesrv(name) for name in ("names-1", "names-2")]
    address = ";".join(f"{process.host.ip}:9876" for process in names)
    for name in BROKERS:
        await cluster.start_broker(name, SETTINGS, names)
    acknowledged: list[str] = []
    consumed: list[str] = []
    over = False

    async def produce(process: Process) -> None:
        async with Producer("p", address, world=process.world, timeout=2.0) as producer:
            number = 0
            while not over:
                number += 1
                text = f"{process.number}-{number}"
                try:
                    await producer.send(Message("T", text.encode(), keys=(text,)))
                except BolideError:
                    await asyncio.sleep(0.1)
                else:
                    acknowledged.append(text)
                await asyncio.sleep(process.world.random.random() * 0.2)

    def listen(message: ReceivedMessage) -> None:
        consumed.append(message.body.decode())

    async def consume(process: Process) -> None:
        async with PushConsumer("g", address, start_from="first", world=process.world) as push:
            push.subscribe("T", "*", listen)
            while not over:
                await asyncio.sleep(0.5)

    def run(name: str) -> Process:
        return cluster.start(name, produce if name.startswith("producer") else consume)

    clients = [run(name) for name in ("producer-1", "producer-2", "consumer-1", "consumer-2")]
    for _ in range(faults):
        await cluster.sleep(cluster.random.uniform(0.5, 4.0))
        await one_fault(cluster)
        clients = [process if process.alive else run(process.name) for process in clients]
    cluster.heal()
    for name in BROKERS:
        if name not in cluster.nodes:
            await cluster.start_broker(name)
    await cluster.sleep(5)
    await cluster.until(lambda: set(acknowledged) <= set(consumed), "everything is consumed", 600)
    over = True
    for process in clients:
        await cluster.ended(process, 120)
    for name in (*BROKERS, "names-1", "names-2"):
        await cluster.stop(name)
    return acknowledged, consumed


async def burst(cluster: Cluster) -> tuple[list[str], list[str]]:
    """Many sends and batches at once, some with a delay between them, to a broker that seldom has the time for a whole
    read: what was acknowledged, and nothing."""
    names = [await cluster.start_namesrv("names-1")]
    address = f"{names[0].host.ip}:9876"
    await cluster.start_broker("broker-a", {"broker_cluster_name": "C"}, names)
    cluster.processes["broker-a"].clock_s = cluster.random.choice((0.000_001, 0.004, 0.009))
    acknowledged: list[str] = []

    async def produce(process: Process) -> None:
        async with Producer("p", address, world=process.world, timeout=60.0, max_in_flight=256) as producer:
            await producer.send_many([Message("T", b"first") for _ in range(8)])

            async def send(number: int) -> None:
                delay = 1 if number % 50 == 7 else 0
                body = bytes(1 + number * 37 % 5000)
                await producer.send(Message("T", body, keys=(str(number),), delay_level=delay))
                acknowledged.append(str(number))

            for start in range(0, 600, 150):
                batches = [producer.send_many([Message("T", bytes(90)) for _ in range(64)]) for _ in range(4)]
                await asyncio.gather(*(send(number) for number in range(start, start + 150)), *batches)

    process = cluster.start("producer-1", produce)
    await cluster.ended(process, 600)
    for name in ("broker-a", "names-1"):
        await cluster.stop(name)
    return acknowledged, []


async def one_fault(cluster: Cluster) -> None:
    """Something goes wrong; what is down comes back at the next."""
    chance = cluster.random
    for name in (*BROKERS, "names-1", "names-2"):
        if not cluster.processes[name].alive:
            await (cluster.start_broker(name) if name in BROKERS else cluster.start_namesrv(name))
    cluster.heal()
    broker, other = chance.sample(BROKERS, 2)
    client = chance.choice(("producer-1", "producer-2", "consumer-1", "consumer-2"))
    what = chance.randrange(12)
    if what == 0:
        cluster.kill(broker)
    elif what == 1:
        cluster.power_cut(broker)
    elif what == 2:
        cluster.pause(broker)
    elif what == 3:
        cluster.partition(client, broker, one_way=chance.random() < 0.5)
    elif what == 4:
        cluster.jump_clock(broker, chance.uniform(-7200, 7200))
    elif what == 5:
        cluster.reset_connections(client)
    elif what == 6:
        cluster.black_hole(client, broker)
    elif what == 7:
        cluster.slow_link(client, broker, 100)
    elif what == 8:
        cluster.slow_disk(broker, 50)
    elif what == 9:
        cluster.kill_at_disk_call(broker, chance.randint(1, 60), power=chance.random() < 0.5)
    elif what == 10:
        cluster.kill(client)
    else:
        await cluster.stop(other)


def run(seed: int, trace: str = "") -> Result:
    """One rehearsal."""
    if not trace:
        return Simulation(seed).run(scenario)
    with open(trace, "w", encoding="utf-8") as out:
        return Simulation(seed, out=out).run(scenario)


def disks(result: Result) -> int:
    """A number for every byte and name on all disks."""
    crc = 0
    for name, disk in sorted(result.cluster.disks.items()):
        assert isinstance(disk, SimulatedFiles)
        folders = ["/"]
        while folders:
            folder = folders.pop()
            for entry in disk.list_dir(folder):
                path = f"{folder.rstrip('/')}/{entry}"
                data = disk.read_file(path)
                crc = zlib.crc32(f"{name} {path} ".encode() + (data or b""), crc)
                if data is None:
                    folders.append(path)
    return crc


if __name__ == "__main__":
    for text in sys.argv[1:]:
        result = run(int(text)) if text.isdecimal() else Simulation(int(text.removeprefix("burst-"))).run(burst)
        value = result.value
        assert isinstance(value, tuple)
        counts = " ".join(str(len(part)) for part in (*value, result.faults))
        sys.stdout.write(f"{text} {result.digest} {disks(result)} {result.seconds:.3f} {counts}\n")
