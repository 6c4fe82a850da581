"""A controller's pages: the figures follow what happens, and /readyz says when nothing can be decided."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bolide.controller.options import ControllerOptions
from bolide.node.controller.node import ControllerNode
from bolide.node.machine.node_world import RealNodeWorld
from bolide.node.ports.daemon_port import CannotListen
from bolide.remoting import codes
from proof.kit.waiting import PATIENCE
from tests.node.controller.etcds import started, store_of
from tests.node.controller.kept import FailingFiles
from tests.node.controller.running import brokers, controller, options, paired
from tests.node.metrics.scraping import asked, scraped, value
from tests.transport.certificates import Certificate

PROM: dict[str, Any] = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}
SET = {"cluster": "C", "broker_set": "b"}


def port_of(node: ControllerNode) -> int:
    assert node.monitoring is not None
    return node.monitoring.number


async def readiness(node: ControllerNode, enough: Callable[[int, str], bool]) -> None:
    """Ask until the page says what it should."""
    end = time.monotonic() + PATIENCE
    while not enough(*(answer := await asked(port_of(node), "/readyz"))):
        assert time.monotonic() < end, answer
        await asyncio.sleep(0.02)


async def test_days_left_of_a_certificate_are_served(tmp_path: Path) -> None:
    own = Certificate(tmp_path)
    async with controller(tmp_path, **PROM, tls_cert_path=own.cert, tls_key_path=own.key) as node:
        found = await scraped(port_of(node))
    assert value(found, "bolide_certificate_days_left", file=own.cert) > 0


async def test_figures_follow_what_happens(tmp_path: Path) -> None:
    async with (
        controller(tmp_path, **PROM) as node,
        brokers(node, "127.0.0.1:1", "127.0.0.1:2") as (first, second),
    ):
        before = await scraped(port_of(node))
        assert value(before, "bolide_controller_leads") == 1 and value(before, "bolide_controller_sets") == 0
        assert "election_total" not in before and "request_total" not in before

        await paired(first, second)
        assert (await first.elect()).code == codes.CONTROLLER_MASTER_STILL_EXIST
        found = await scraped(port_of(node))
        assert value(found, "bolide_controller_sets") == 1
        assert value(found, "bolide_controller_sets_without_master") == 0
        assert value(found, "bolide_controller_has_master", **SET) == 1
        assert value(found, "bolide_controller_replicas", **SET) == 2
        assert value(found, "bolide_controller_in_sync_replicas", **SET) == 2
        assert value(found, "bolide_controller_master_epoch", **SET) == 1
        assert value(found, "active_broker_num", **SET) == 2
        assert value(found, "election_total", **SET, election_result="new_master_elected") == 1
        assert value(found, "election_total", **SET, election_result="keep_current_master") == 1
        of_elections = {"request_type": "controller_elect_master"}
        assert value(found, "request_total", **of_elections, request_handle_status="success") == 1
        assert value(found, "request_total", **of_elections, request_handle_status="failed") == 1
        assert value(found, "request_total", request_type="broker_heartbeat", request_handle_status="success") == 2
        assert value(found, "bolide_build_info", role="CONTROLLER", node_type="controller", group="bolide") == 1
        assert value(found, "bolide_controller_members") == 1 and value(found, "bolide_controller_deciding") == 0
        assert value(found, "bolide_requests_total") == 7 and value(found, "bolide_connections") == 2

        await second.ask(59_999)
        found = await scraped(port_of(node))
        assert value(found, "bolide_requests_total") == 8
        assert sum(count for _, count in found["request_total"]) == 7  # nobody makes names by asking


async def test_controller_is_not_ready_while_its_disk_fails(tmp_path: Path) -> None:
    files = FailingFiles()
    world = RealNodeWorld(files=files)
    async with controller(tmp_path, world, **PROM) as node, brokers(node, "127.0.0.1:1") as (first,):
        await first.join()
        assert await asked(port_of(node), "/readyz") == (200, "ready\n")
        assert value(await scraped(port_of(node)), "bolide_controller_sets_without_master") == 1
        files.failing = "before"
        assert (await first.elect()).code == codes.SYSTEM_ERROR
        await readiness(node, lambda status, text: status == 503 and "no decision can be stored" in text)
        found = await scraped(port_of(node))
        assert value(found, "bolide_controller_leads") == value(found, "bolide_controller_store_reached") == 0
        assert (await asked(port_of(node), "/healthz"))[0] == 200  # a restart would not help
        files.failing = ""
        await readiness(node, lambda status, text: status == 200)


async def test_controller_is_not_ready_without_etcd(tmp_path: Path) -> None:
    node = ControllerNode(options(tmp_path, controller_store="etcd:http://127.0.0.1:1", **PROM))
    await node.start()
    try:
        status, text = await asked(port_of(node), "/readyz")
        assert status == 503 and "no decision can be stored" in text
        found = await scraped(port_of(node))
        assert value(found, "bolide_controller_leader_known") == 0
    finally:
        await node.stop()


@pytest.mark.slow
async def test_a_follower_is_ready_until_etcd_is_lost(tmp_path: Path) -> None:
    (member,) = started(tmp_path / "etcd")
    settings = {"controller_store": store_of([member]), "leader_lease_seconds": 2, **PROM}
    try:
        async with controller(tmp_path, **settings) as leader:
            other = ControllerNode(options(tmp_path / "o", controller_d_leger_self_id="n1", **settings))
            await other.start()
            try:
                await readiness(other, lambda status, text: status == 200)
                found = await scraped(port_of(other))
                assert value(found, "bolide_controller_leads") == 0
                assert value(found, "bolide_controller_leader_known") == 1
                await asyncio.to_thread(member.kill)
                for node in (leader, other):
                    await readiness(node, lambda status, text: status == 503 and "no decision can be stored" in text)
            finally:
                await other.stop()
    finally:
        member.kill()


async def test_a_port_that_is_taken_stops_the_start(tmp_path: Path) -> None:
    async with controller(tmp_path, **PROM) as node:
        taken: dict[str, Any] = PROM | {"metrics_prom_exporter_port": port_of(node)}
        with pytest.raises(CannotListen, match="metricsPromExporterPort"):
            await ControllerNode(options(tmp_path / "other", **taken)).start()
        assert ControllerOptions().metrics_exporter_type == "DISABLE"
