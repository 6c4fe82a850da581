"""A broker's pages: the figures follow what happens, and /readyz tells the truth."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from bolide.broker.core.names import is_system_group
from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.machine.node_world import RealNodeWorld
from bolide.node.namesrv import NamesrvNode
from bolide.node.ports.daemon_port import CannotListen
from bolide.remoting import codes
from bolide.remoting.command import make_request
from bolide.store.background.running_flags import DISK_FULL
from bolide.store.disk.files import RealFiles
from proof.kit.waiting import PATIENCE, until
from tests.node.brokers import broker, options, pull_request, send_request
from tests.node.metrics.scraping import asked, page, scraped, value
from tests.node.name_servers import namesrv
from tests.transport.certificates import Certificate

PROM = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}


def port_of(node: BrokerNode | NamesrvNode) -> int:
    assert node.monitoring is not None
    return node.monitoring.number


OF_JAVA: dict[str, set[str]] = {
    "rocketmq_broker_permission": set(),
    "rocketmq_consumer_group_number": set(),
    "rocketmq_consumer_inflight_messages": {"consumer_group", "is_retry", "is_system", "topic"},
    "rocketmq_consumer_lag_latency_milliseconds": {"consumer_group", "is_retry", "is_system", "topic"},
    "rocketmq_consumer_lag_messages": {"consumer_group", "is_retry", "is_system", "topic"},
    "rocketmq_consumer_ready_messages": {"consumer_group", "is_retry", "is_system", "topic"},
    "rocketmq_half_messages": set(),
    "rocketmq_messages_in_total": {"is_system", "topic"},
    "rocketmq_messages_out_total": {"consumer_group", "is_system", "topic"},
    "rocketmq_processor_watermark": {"processor"},
    "rocketmq_send_to_dlq_messages_total": {"consumer_group", "topic"},
    "rocketmq_storage_dispatch_behind_bytes": {"storage_medium", "storage_type"},
    "rocketmq_storage_flush_behind_bytes": {"storage_medium", "storage_type"},
    "rocketmq_storage_size_bytes": {"storage_medium", "storage_type"},
    "rocketmq_throughput_in_total": {"is_system", "topic"},
    "rocketmq_throughput_out_total": {"consumer_group", "is_system", "topic"},
    "rocketmq_timer_enqueue_lag": {"storage_medium", "storage_type"},
    "rocketmq_topic_number": set(),
}
"""Labels of a Java 5.5.0 broker with metricsExporterType = PROM, without message_type and those that all have; and
rocketmq_half_messages and rocketmq_send_to_dlq_messages_total, which it serves once there are some."""


async def test_figures_follow_what_happens(tmp_path: Path) -> None:
    async with broker(tmp_path, **PROM) as (node, client):
        before = await scraped(port_of(node))
        assert "rocketmq_messages_in_total" not in before and value(before, "bolide_requests_total") == 0
        for _ in range(5):
            await client.request(send_request(), PATIENCE)
        await client.request(pull_request(), PATIENCE)
        await client.request(pull_request(offset=5), PATIENCE)
        committed = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "2"}
        await client.request(make_request(codes.UPDATE_CONSUMER_OFFSET, 0, committed), PATIENCE)
        lag_times = node.parts.lag_times
        lag_times.tick(node.clock.now(), 1000)  # a round, though the last one was less than ten seconds ago
        await until(lambda: lag_times.age("T", "g", node.clock.now()) > 0, "an age")
        held = asyncio.create_task(client.request(pull_request(offset=5, sys_flag=6, suspend=60_000), PATIENCE))
        await until(lambda: node._waiters.count == 1, "the held pull")
        now = await scraped(port_of(node))
        held.cancel()
    who = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}
    of_group = {"topic": "T", "consumer_group": "g", "is_retry": "false", "is_system": "false"}
    assert value(now, "rocketmq_messages_in_total", topic="T", is_system="false", **who) == 5
    assert value(now, "rocketmq_throughput_in_total", topic="T") == node.store.end_offset
    assert value(now, "rocketmq_messages_out_total", topic="T", consumer_group="g", **who) == 5
    dead = {"topic": "%DLQ%g", "consumer_group": "g"}
    assert value(now, "rocketmq_send_to_dlq_messages_total", **dead, **who) == 0, "before its first dead letter"
    assert value(now, "bolide_backward_commits_total", consumer_group="g") == 0
    internal = {labels["consumer_group"] for labels, _ in now["rocketmq_send_to_dlq_messages_total"]} - {"g"}
    assert not any(map(is_system_group, internal))
    assert value(now, "rocketmq_consumer_lag_messages", **of_group, **who) == 3
    assert value(now, "rocketmq_consumer_lag_latency_milliseconds", **of_group) > 0
    assert value(now, "rocketmq_consumer_inflight_messages", **of_group) == 3
    assert value(now, "rocketmq_consumer_ready_messages", **of_group) == 0
    assert {name: set(now[name][0][0]) - set(who) for name in now if name.startswith("rocketmq")} == OF_JAVA
    assert value(now, "bolide_held_pulls") == 1
    assert value(now, "bolide_reads_missed_total") == 2
    assert value(now, "bolide_send_seconds_count") == 5 and value(now, "bolide_send_seconds_bucket", le="+Inf") == 5
    assert value(now, "bolide_send_batch_sum") == 5
    assert value(now, "bolide_connections") == 1
    assert value(now, "rocketmq_storage_size_bytes", storage_type="local") == node.store.end_offset
    assert value(now, "bolide_turn_seconds_count") > value(before, "bolide_turn_seconds_count")
    assert value(now, "process_resident_memory_bytes") > 1 << 20


async def test_copied_messages_are_not_messages_in(tmp_path: Path) -> None:
    async with broker(tmp_path, **PROM) as (node, _):
        for topic, size in (("T", 100), ("T", 60), ("SCHEDULE_TOPIC_XXXX", 40)):
            node.parts.stats.copied(topic, size)
        now = await scraped(port_of(node))
    assert "rocketmq_messages_in_total" not in now
    for topic, internal, messages, size in (("T", "false", 2, 160), ("SCHEDULE_TOPIC_XXXX", "true", 1, 40)):
        assert value(now, "bolide_messages_copied_total", topic=topic, is_system=internal) == messages
        assert value(now, "bolide_throughput_copied_total", topic=topic, is_system=internal) == size


async def test_the_format_is_the_one_that_is_asked_for(tmp_path: Path) -> None:
    async with broker(tmp_path, **PROM) as (node, _):
        _, plain, _ = await asyncio.to_thread(page, port_of(node), "/metrics")
        _, open_metrics, text = await asyncio.to_thread(
            page, port_of(node), "/metrics", "application/openmetrics-text; version=1.0.0"
        )
    assert plain.startswith("text/plain; version=")
    assert open_metrics.startswith("application/openmetrics-text; version=1.0.0") and text.endswith("# EOF\n")


class Filling(RealFiles):
    """A disk that is full, whenever the broker looks."""

    full = False

    def disk_use(self, path: str) -> float:
        return 1.0 if self.full else 0.0


async def test_a_broker_is_not_ready_while_its_store_takes_nothing(tmp_path: Path) -> None:
    files = Filling()
    async with broker(tmp_path, RealNodeWorld(files), **PROM) as (node, _):
        port = port_of(node)
        assert await asked(port, "/readyz") == (200, "ready\n")
        files.full = True
        node.store.flags.set(DISK_FULL)
        assert await asked(port, "/readyz") == (503, "the store rejects messages: the disk is full\n")
        assert value(await scraped(port), "bolide_store_writable") == 0
        assert await asked(port, "/healthz") == (200, "alive\n")
        files.full = False
        node.store.flags.clear(DISK_FULL)
        assert await asked(port, "/readyz") == (200, "ready\n")
        node.store.stop_writing("EIO")
        assert await asked(port, "/readyz") == (503, "the store has failed: EIO\n")
        assert value(await scraped(port), "bolide_store_failed") == 1


async def test_a_broker_is_not_ready_while_no_name_server_knows_it(tmp_path: Path) -> None:
    server = namesrv(tmp_path)
    await server.start()
    async with broker(tmp_path / "store", namesrv_addr=server.address, **PROM) as (node, _):
        port = port_of(node)
        assert await asked(port, "/readyz") == (200, "ready\n")
        assert value(await scraped(port), "bolide_name_servers_reached") == 1
        await server.stop()
        registration = node._registration
        assert registration is not None
        await until(lambda: registration.known_by == 0, "the end of the connection")
        status, text = await asked(port, "/readyz")
        assert status == 503 and text.startswith("registered with none of the 1 configured")


async def test_a_name_server_has_pages_too(tmp_path: Path) -> None:
    server = NamesrvNode(
        NamesrvOptions(
            listen_port=0,
            kv_config_path=str(tmp_path / "kv.json"),
            metrics_exporter_type="PROM",
            metrics_prom_exporter_port=0,
        )
    )
    await server.start()
    async with broker(tmp_path / "store", namesrv_addr=server.address):
        now = await scraped(port_of(server))
        assert value(now, "bolide_namesrv_brokers_alive", node_type="namesrv", node_id=server.address) == 1
        assert value(now, "bolide_namesrv_topics") > 5 and value(now, "bolide_requests_total") >= 1
        assert await asked(port_of(server), "/healthz") == (200, "alive\n")
        assert await asked(port_of(server), "/readyz") == (200, "ready\n")
    await server.stop()


async def test_a_port_that_is_taken_stops_the_start(tmp_path: Path) -> None:
    async with broker(tmp_path / "a", **PROM) as (node, _):
        other = BrokerNode(options(tmp_path / "b", **{**PROM, "metrics_prom_exporter_port": port_of(node)}))
        with pytest.raises(CannotListen, match="metricsPromExporterPort = "):
            await other.start()


@pytest.mark.parametrize("module", ["broker", "namesrv"])
def test_prometheus_is_not_loaded_if_off(module: str) -> None:
    told = f"import bolide.node.{module}, sys; print([name for name in sys.modules if 'prometheus' in name])"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, check=True, text=True).stdout == "[]\n"


def test_without_the_library_the_start_says_what_to_install() -> None:
    told = "import sys; sys.modules['prometheus_client'] = None; import bolide.node.metrics.monitoring"
    ended = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True)
    assert "ConfigError: metricsExporterType = PROM needs" in ended.stderr and "install bolide[server]" in ended.stderr


async def test_days_left_of_a_certificate_are_served(tmp_path: Path) -> None:
    own = Certificate(tmp_path)
    settings = {"tls_cert_path": own.cert, "tls_key_path": own.key}
    async with broker(tmp_path / "store", **PROM, **settings) as (node, _):
        found = await scraped(port_of(node))
    assert value(found, "bolide_certificate_days_left", file=own.cert) > 0
    server = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kv.json"), **PROM, **settings))
    await server.start()
    found = await scraped(port_of(server))
    await server.stop()
    assert value(found, "bolide_certificate_days_left", file=own.cert) > 0
