"""The scrub of a simulated broker: it finds the bit that a disk has flipped, and a seed gives the same run."""

from __future__ import annotations

from typing import Any

from bolide.client import Message, Producer
from bolide.node.broker import BrokerNode
from bolide.remoting import codes
from bolide.remoting.command import make_request
from bolide.store.scrub.finding import DamageKind
from bolide.store.scrub.scrub import Phase, ScrubStatus
from bolide.transport.client import ClientConnection
from proof.simulation.cluster import Cluster, Result, Simulation
from proof.simulation.disk import Disk
from proof.simulation.process import Process

SETTINGS: dict[str, Any] = {"flush_disk_type": "SYNC_FLUSH", "scrub_interval": 60_000, "broker_cluster_name": "C"}
LOG = f"/store/commitlog/{0:020d}"


def status(cluster: Cluster) -> ScrubStatus:
    node = cluster.node("broker-a")
    assert isinstance(node, BrokerNode)
    return node.parts.scrub.status()


def disk(cluster: Cluster) -> Disk:
    found = cluster.disks["broker-a"]
    assert isinstance(found, Disk)
    return found


async def filled(cluster: Cluster) -> str:
    """Start a broker with 30 messages. Return the address of its name server."""
    names = await cluster.start_namesrv("names")
    await cluster.start_broker("broker-a", SETTINGS, [names])
    address = f"{names.host.ip}:9876"

    async def send(process: Process) -> None:
        async with Producer("p", address, world=process.world) as producer:
            for number in range(30):
                await producer.send(Message("T", b"message %d" % number, keys=(f"K{number}",)))

    await cluster.ended(cluster.start("producer", send))
    return address


async def passes(cluster: Cluster, count: int) -> None:
    await cluster.until(lambda: status(cluster).passes >= count, f"{count} passes", 3000)


def simulated(scenario: Any) -> Result:
    return Simulation(7, disk=lambda name, seed: Disk(seed)).run(scenario)


async def rot(cluster: Cluster) -> list[str]:
    await filled(cluster)
    await cluster.sleep(70.0)
    await passes(cluster, 1)
    assert status(cluster).findings == []
    at = disk(cluster).bytes_of(LOG, 0, 1 << 16).index(b"message 17")
    disk(cluster).flip(LOG, at, 3)
    await passes(cluster, status(cluster).passes + 2)
    (found,) = status(cluster).findings
    assert (found.kind, found.path) == (DamageKind.RECORD, f"commitlog/{0:020d}")
    assert found.position <= at < found.position + found.size
    disk(cluster).flip(LOG, at, 3)
    await passes(cluster, status(cluster).passes + 2)
    assert status(cluster).findings == []
    return [f"{status(cluster)}"]


def test_flipped_bit_is_found_and_a_seed_gives_the_same_run() -> None:
    first, second = simulated(rot), simulated(rot)
    assert (first.digest, first.value) == (second.digest, second.value)


async def killed(cluster: Cluster) -> None:
    await filled(cluster)
    await cluster.sleep(70.0)
    unit = f"/store/consumequeue/T/0/{0:020d}"
    disk(cluster).flip(unit, 19, 0)
    await passes(cluster, status(cluster).passes + 2)
    (found,) = status(cluster).findings
    cluster.kill("broker-a")
    await cluster.start_broker("broker-a")
    await cluster.sleep(5.0)
    assert status(cluster).findings == [found]
    disk(cluster).flip(unit, 19, 0)
    await passes(cluster, status(cluster).passes + 2)
    assert status(cluster).findings == []


def test_findings_survive_a_kill() -> None:
    simulated(killed)


async def paused(cluster: Cluster) -> None:
    await filled(cluster)
    address = cluster.node("broker-a").address

    async def pause(process: Process) -> None:
        client = await ClientConnection.connect(address, 10.0, world=process.world)
        answer = await client.request(make_request(codes.UPDATE_BROKER_CONFIG, 0, body=b"scrubEnable=false\n"), 10.0)
        assert answer.code == codes.SUCCESS
        client.close()

    await cluster.ended(cluster.start("operator", pause))
    assert status(cluster).phase is Phase.PAUSED
    await cluster.stop("broker-a")
    await cluster.start_broker("broker-a")
    await cluster.sleep(600.0)
    assert (status(cluster).phase, status(cluster).bytes_read) == (Phase.PAUSED, 0)


def test_paused_scrub_remains_paused_after_a_restart() -> None:
    simulated(paused)


async def powerless(cluster: Cluster) -> None:
    await filled(cluster)
    for _ in range(6):
        await cluster.sleep(65.0)
        cluster.power_cut("broker-a")
        await cluster.sleep(1.0)
        await cluster.start_broker("broker-a")
    await passes(cluster, status(cluster).passes + 1)
    assert status(cluster).findings == []


def test_power_cuts_are_not_damage() -> None:
    simulated(powerless)


async def unreadable(cluster: Cluster) -> None:
    await filled(cluster)
    disk(cluster).fail("EIO", "scan", LOG, times=-1)
    await cluster.sleep(70.0)
    await passes(cluster, 1)
    assert {found.kind for found in status(cluster).findings} == {DamageKind.UNREADABLE}
    disk(cluster).faults_over()
    await passes(cluster, status(cluster).passes + 2)
    assert status(cluster).findings == []


def test_unreadable_file_is_found() -> None:
    simulated(unreadable)
