"""The alert rules of deploy/prometheus on recorded series: what /metrics of running daemons showed before and after a
fault. Each recording fires exactly the alerts of its fault."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from bolide.layout.names import DLQ_PREFIX
from bolide.node.broker import BrokerNode
from bolide.node.controller.node import ControllerNode
from bolide.node.loop.clock import Clock
from bolide.node.machine.node_world import RealNodeWorld
from bolide.remoting import codes
from bolide.remoting.batch import BatchMessage, encode_batch
from bolide.remoting.command import Command, make_request
from bolide.store.disk.files import FileFailed, RealFiles
from bolide.transport.client import ClientConnection
from bolide.world.clocks import steady_ms
from proof.kit.waiting import PATIENCE, until
from tests.broker.parts import overwrite
from tests.node.brokers import SYNCED, broker, options, pull_request, send_request
from tests.node.controller.kept import FailingFiles
from tests.node.controller.running import brokers, controller, paired
from tests.node.metrics.scraping import Samples, scraped, value
from tests.node.name_servers import namesrv
from tests.node.replication.parts import OK, codes_of, master, same, send, slave
from tests.optional_programs import needed
from tests.promtool import judged
from tests.transport.certificates import Certificate

PROM: Final[dict[str, Any]] = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}
MINUTES: Final = 60
JUST_NOW: Final = 50
"""Minute of a fault, for rules that compare the last ten minutes."""
LONG_AGO: Final = -86_400
"""Start of a daemon in seconds, if the recording does not contain it."""
BATCH: Final = 10_000
OF_THE_MACHINE: Final = ("bolide_disk_", "process_", "python_")
"""Series that depend on the machine of the test."""


class Scrape(NamedTuple):
    """Samples of a minute, and of the minutes until the next scrape. `samples` is None if the daemon does not respond;
    `started` is its start in seconds."""

    minute: int
    samples: Samples | None
    started: float = LONG_AGO


Recording = list[Scrape]
"""The scrapes of one daemon. Prometheus starts with the first one."""


async def scrape(node: BrokerNode | ControllerNode) -> Samples:
    """Return the samples of a daemon after the log is synced or its disk has failed."""
    assert node.monitoring is not None
    if isinstance(node, BrokerNode):
        store = node.store
        await until(lambda: store.flushed_offset >= store.written_offset or bool(store.failure), "syncs of the log")
    return await scraped(node.monitoring.number)


def series_of(recording: Recording) -> dict[str, str]:
    """The series that Prometheus stores, as promtool reads them: one value per minute, and the mark at the end of a
    series that a scrape lacks."""
    columns: list[dict[str, float]] = []
    for minute in range(MINUTES + 1):
        last = next((each for each in reversed(recording) if each.minute <= minute), None)
        columns.append({} if last is None else row_of(last))
    before: list[dict[str, float]] = [{}, *columns]

    def written(name: str, minute: int) -> str:
        if name in columns[minute]:
            return repr(columns[minute][name])
        return "stale" if name in before[minute] else "_"

    names = sorted({name for column in columns for name in column})
    return {name: " ".join(written(name, minute) for minute in range(MINUTES + 1)) for name in names}


def row_of(scrape: Scrape) -> dict[str, float]:
    """One scrape with the labels of its target, and the series that Prometheus adds."""
    target = {"job": "bolide", "instance": "here:5557"}
    row = {named("up", target): float(scrape.samples is not None)}
    for name, rows in (scrape.samples or {}).items():
        if name == "process_start_time_seconds":
            row[named(name, target)] = float(scrape.started)
        elif not name.startswith(OF_THE_MACHINE):
            row |= {named(name, labels | target): number for labels, number in rows}
    return row


def named(name: str, labels: dict[str, str]) -> str:
    """A series in the notation of Prometheus."""
    return f"{name}{{{','.join(f'{key}={json.dumps(text)}' for key, text in sorted(labels.items()))}}}"


async def succeeds(client: ClientConnection, *requests: Command) -> None:
    """Send requests, one after the other."""
    for request in requests:
        answer = await client.request(request, PATIENCE)
        assert answer.code == codes.SUCCESS, answer.remark


def batch(count: int) -> Command:
    """A batch of messages with one byte each."""
    request = send_request(body=encode_batch([BatchMessage(0, b"x", b"")] * count), m="true")
    request.code = codes.SEND_BATCH_MESSAGE
    return request


def committed(offset: int) -> Command:
    """The commit of group g in T."""
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": str(offset)}
    return make_request(codes.UPDATE_CONSUMER_OFFSET, 0, fields)


async def dead_letters(folder: Path) -> tuple[Samples, Samples]:
    """A consumer gives a message up."""
    async with broker(folder, **PROM) as (node, client):
        await succeeds(client, send_request(), pull_request(), committed(1))
        before = await scrape(node)
        back = {"group": "g", "offset": "0", "delayLevel": "-1", "originTopic": "T"}
        await succeeds(client, make_request(codes.CONSUMER_SEND_MSG_BACK, 0, back))
        after = await scrape(node)
    assert value(after, "rocketmq_send_to_dlq_messages_total", consumer_group="g", topic=f"{DLQ_PREFIX}g") == 1
    return before, after


async def a_consumer_gives_up(folder: Path) -> Recording:
    before, after = await dead_letters(folder)
    return [Scrape(0, before), Scrape(JUST_NOW, after)]


async def a_new_broker_has_dead_letters(folder: Path) -> Recording:
    _, after = await dead_letters(folder)
    return [Scrape(0, None), Scrape(JUST_NOW, after, started=JUST_NOW * 60 - 10)]


async def prometheus_meets_old_dead_letters(folder: Path) -> Recording:
    _, after = await dead_letters(folder)
    return [Scrape(20, after)]


async def a_broker_with_old_dead_letters_is_unreachable(folder: Path) -> Recording:
    _, after = await dead_letters(folder)
    return [Scrape(0, after), Scrape(10, None), Scrape(30, after)]


async def damaged(folder: Path) -> tuple[Samples, Samples]:
    """A pull meets a record whose body has changed on the disk."""
    async with broker(folder, **PROM, tail_cache_bytes=0) as (node, client):
        await succeeds(client, send_request(), send_request(), pull_request())
        before = await scrape(node)
        ((place, _, _),) = node.store.units("T", 0, 1, 1)
        body = node.store.log.segments.read(place, 200).index(b"hello")
        overwrite(node.store, place + body, b"j")
        assert (await client.request(pull_request(offset=1), PATIENCE)).code == codes.SYSTEM_ERROR
        return before, await scrape(node)


async def a_record_is_damaged(folder: Path) -> Recording:
    before, after = await damaged(folder)
    return [Scrape(0, before), Scrape(JUST_NOW, after)]


async def prometheus_meets_old_damage(folder: Path) -> Recording:
    _, after = await damaged(folder)
    return [Scrape(20, after)]


class BrokenSync(RealFiles):
    """Real files whose syncs of the log fail once `broken` is set."""

    broken = False

    def datasync(self, handle: int) -> None:
        if self.broken and "/commitlog/" in self._paths[handle]:
            raise FileFailed("sync of the log failed: I/O error")
        super().datasync(handle)


async def a_sync_fails(folder: Path) -> Recording:
    files = BrokenSync()
    node = BrokerNode(options(folder, **SYNCED, **PROM), world=RealNodeWorld(files))
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    await succeeds(client, send_request())
    before = await scrape(node)
    files.broken = True
    assert (await client.request(send_request(), PATIENCE)).code == codes.SERVICE_NOT_AVAILABLE
    after = await scrape(node)
    client.close()
    await client.wait_closed()
    await node.stop()
    return [Scrape(0, before), Scrape(JUST_NOW, after), Scrape(JUST_NOW + 1, None)]


async def a_group_lags(folder: Path) -> Recording:
    async with broker(folder, **PROM) as (node, client):
        await succeeds(client, send_request(), pull_request(), committed(1))
        before = await scrape(node)
        await succeeds(client, *[batch(BATCH) for _ in range(100_000 // BATCH + 1)])
        after = await scrape(node)
    return [Scrape(0, before), Scrape(30, after)]


def moved_clock() -> tuple[Clock, list[int]]:
    """A clock, and the ms that it is ahead."""
    ahead = [0]
    return Clock(steady=lambda: steady_ms() + ahead[0]), ahead


async def a_group_is_late(folder: Path) -> Recording:
    clock, ahead = moved_clock()
    async with broker(folder, RealNodeWorld(clock=clock), **PROM) as (node, client):
        await succeeds(client, send_request(), send_request(), pull_request(), committed(1))
        lag_times = node.parts.lag_times
        lag_times.tick(node.clock.now(), 1000)
        await until(lambda: lag_times.age("T", "g", node.clock.now()) > 0, "an age")
        before = await scrape(node)
        ahead[0] += 700_000
        after = await scrape(node)
    return [Scrape(0, before), Scrape(30, after)]


async def a_master_is_lost(folder: Path) -> Recording:
    clock, ahead = moved_clock()
    async with master(folder / "m") as of, slave(folder / "s", of, world=RealNodeWorld(clock=clock), **PROM) as to:
        assert codes_of(await send(of, 3)) == OK
        await same(of, to)
        before = await scrape(to)
        await of.stop()
        ahead[0] += 120_000
        after = await scrape(to)
    return [Scrape(0, before), Scrape(30, after)]


async def a_set_loses_its_replica_and_its_master(folder: Path) -> Recording:
    async with (
        controller(folder, **PROM) as node,
        brokers(node, "127.0.0.1:1", "127.0.0.1:2") as (first, second),
    ):
        await paired(first, second)
        before = await scrape(node)
        body = b'{"syncStateSet":[1],"syncStateSetEpoch":2}'
        alone = await first.ask(codes.CONTROLLER_ALTER_SYNC_STATE_SET, body, masterBrokerId=1, masterEpoch=1)
        assert alone.code == codes.SUCCESS
        less = await scrape(node)
        first.client.close()
        last = less
        while value(last, "bolide_controller_has_master", broker_set="b") == 1:
            last = await scrape(node)
    return [Scrape(0, before), Scrape(20, less), Scrape(40, last)]


async def a_controller_cannot_store(folder: Path) -> Recording:
    files = FailingFiles()
    async with controller(folder, RealNodeWorld(files=files), **PROM) as node, brokers(node, "127.0.0.1:1") as (first,):
        await first.join()
        assert (await first.elect()).code == codes.SUCCESS
        before = await scrape(node)
        files.failing = "before"
        body = b'{"syncStateSet":[1],"syncStateSetEpoch":1}'
        await first.ask(codes.CONTROLLER_ALTER_SYNC_STATE_SET, body, masterBrokerId=1, masterEpoch=1)
        after = before
        while value(after, "bolide_controller_store_reached") == 1:
            after = await scrape(node)
        files.failing = ""
    return [Scrape(0, before), Scrape(JUST_NOW, after)]


async def a_name_server_stops(folder: Path) -> Recording:
    server = namesrv(folder)
    await server.start()
    async with broker(folder / "store", namesrv_addr=server.address, **PROM) as (node, _):
        before = await scrape(node)
        await server.stop()
        registration = node._registration
        assert registration is not None
        await until(lambda: registration.known_by == 0, "the end of the connection")
        after = await scrape(node)
    return [Scrape(0, before), Scrape(JUST_NOW, after)]


async def a_table_is_damaged(folder: Path) -> Recording:
    async with broker(folder, **PROM) as (node, client):
        await succeeds(client, send_request(), send_request("U"))
        before = await scrape(node)
    (folder / "config" / "topics.json").write_bytes(b"{")
    async with broker(folder, **PROM) as (node, _):
        after = await scrape(node)
    return [Scrape(0, before), Scrape(JUST_NOW, after, started=JUST_NOW * 60 - 10)]


async def a_certificate_ends(folder: Path) -> Recording:
    found: list[Samples] = []
    for days in (100, 2):
        (folder / str(days)).mkdir()
        own = Certificate(folder / str(days), days)
        async with broker(folder / "store", **PROM, tls_cert_path=own.cert, tls_key_path=own.key) as (node, _):
            found.append(await scrape(node))
    return [Scrape(0, found[0]), Scrape(JUST_NOW, found[1], started=JUST_NOW * 60 - 10)]


def case(fault: Callable[[Path], Awaitable[Recording]], *alerts: str, slow: bool = False) -> Any:
    """A recording and the alerts that it fires."""
    return pytest.param(fault, set(alerts), id=fault.__name__, marks=[pytest.mark.slow] if slow else [])


FAULTS: Final = [
    case(a_consumer_gives_up, "BolideDeadLetters"),
    case(a_new_broker_has_dead_letters, "BolideDeadLetters", "BolideDown"),
    case(prometheus_meets_old_dead_letters),
    case(a_broker_with_old_dead_letters_is_unreachable, "BolideDown"),
    case(a_record_is_damaged, "BolideDamagedRecords"),
    case(prometheus_meets_old_damage),
    case(a_sync_fails, "BolideSendsFail", "BolideStoreFailed", "BolideDown"),
    case(a_group_lags, "BolideGroupLags", slow=True),
    case(a_group_is_late, "BolideGroupIsLate"),
    case(a_master_is_lost, "BolideSlaveLags"),
    case(a_set_loses_its_replica_and_its_master, "BolideReplicaOutOfSync", "BolideSetWithoutMaster"),
    case(a_controller_cannot_store, "BolideControllerKeepsNothing", "BolideNoControllerLeads"),
    case(a_name_server_stops, "BolideUnknownToNameServers"),
    case(a_table_is_damaged, "BolideDamagedTables"),
    case(a_certificate_ends, "BolideCertificateEnds"),
]
"""Each fault with the alerts that fire within the hour. All others are silent."""


@pytest.mark.parametrize(("fault", "alerts"), FAULTS)
async def test_a_recorded_fault_fires_its_alerts_and_no_other(
    fault: Callable[[Path], Awaitable[Recording]], alerts: set[str], tmp_path: Path
) -> None:
    series = series_of(await fault(tmp_path))
    fired = 'group by (alertname) (max_over_time(ALERTS{alertstate="firing"}[1h]))'
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": fired, "eval_time": f"{MINUTES}m", "exp_samples": samples}],
    }
    assert judged(needed("promtool"), tmp_path, [test]) == ""
