"""Masters and slaves of our own: equal logs, acknowledgements, restarts and kills of either."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bolide.broker.options.composed import BrokerOptions
from bolide.errors import ConfigError
from bolide.namesrv.options import NamesrvOptions
from bolide.node.namesrv import NamesrvNode
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.transport.client import ClientConnection
from proof.kit.waiting import PATIENCE, until
from tests.broker.parts import send_request
from tests.node.metrics.scraping import scraped, value
from tests.node.replication.parts import FILE, OK, codes_of, log_of, master, node_of, same, send, slave


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_a_slave_holds_what_was_acknowledged_and_its_log_is_equal(tmp_path: Path, flush: str) -> None:
    async with (
        master(tmp_path / "m", flush_disk_type=flush) as of,
        slave(tmp_path / "s", of, flush_disk_type=flush) as to,
    ):
        assert codes_of(await send(of, 300)) == OK
        assert to.store.written_offset == of.store.written_offset > 2 * FILE
        await same(of, to)


async def test_slave_counts_copied_messages(tmp_path: Path) -> None:
    keys = ("putMessageTimesTotal", "putMessageSizeTotal", "msgPutTotalTodayNow")
    prom = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}
    async with master(tmp_path / "m") as of, slave(tmp_path / "s", of, **prom) as to:
        assert codes_of(await send(of, 30)) == OK
        await same(of, to)
        assert to.monitoring is not None
        shown = await scraped(to.monitoring.number)
        size = value(shown, "bolide_throughput_copied_total", topic="T", is_system="false")
        assert (value(shown, "bolide_messages_copied_total", topic="T"), size) == (30, of.store.end_offset)
        assert "rocketmq_messages_in_total" not in shown
        told = [node.parts.inspection.runtime_info(node.parts.stats.boot_timestamp + 10_000) for node in (of, to)]
        assert [told[1][key] for key in keys] == [told[0][key] for key in keys]
        assert told[1]["msgPutTotalTodayNow"] == "30"
        assert told[1]["putTps"] != "0.00 0.00 0.00"
        assert to.parts.stats.topic_puts == {}
        assert to.parts.stats.topic_copies["T"].messages == 30
        assert of.parts.stats.topic_copies == {}
    async with node_of(tmp_path / "s") as alone:
        assert alone.parts.stats.put_messages == 0


async def test_an_idle_slave_that_has_all_does_not_lag(tmp_path: Path) -> None:
    beat = 60_000
    async with (
        master(tmp_path / "a") as first,
        slave(tmp_path / "b", first, ha_send_heartbeat_interval=beat) as second,
    ):
        side = second.parts.inspection.replicas
        await send(first, 3)
        await same(first, second)
        await until(lambda: side.lag_ms(second.clock.now()) == 0, "the slave has all")
        now = second.clock.now()
        assert side.lag_ms(now + beat) == 0, "the master is idle"
        assert side.lag_ms(now + 3 * beat) > 2 * beat, "the master is silent"


async def test_without_a_slave_a_send_is_answered_12_and_delivered(tmp_path: Path) -> None:
    async with master(tmp_path / "m", slave_timeout=100) as of:
        assert codes_of(await send(of, 3)) == {codes.FLUSH_SLAVE_TIMEOUT}
        assert of.store.dispatched_offset == of.store.written_offset
        async with slave(tmp_path / "s", of) as to:
            await same(of, to)
    async with master(tmp_path / "m") as of, slave(tmp_path / "s", of) as to:
        assert codes_of(await send(of, 3)) == OK
        await same(of, to)


async def test_a_stop_lets_slaves_have_what_they_lack(tmp_path: Path) -> None:
    """No send waits for them: one of them may be made the master next."""
    more = {"broker_role": "ASYNC_MASTER", "in_sync_replicas": 1}
    async with master(tmp_path / "m", **more) as of, slave(tmp_path / "s", of) as to:
        await same(of, to)
        for number in range(5):
            assert codes_of(await send(of, 20, first=number)) == OK
        end = int(of.store.written_offset)
        await of.stop()
        assert to.store.written_offset == end


async def test_a_slave_that_was_away_catches_up_from_the_middle_of_a_file(tmp_path: Path) -> None:
    async with master(tmp_path / "m") as of, slave(tmp_path / "s", of):
        assert codes_of(await send(of, 30)) == OK
    async with master(tmp_path / "m", slave_timeout=100) as of:
        assert codes_of(await send(of, 200)) == {codes.FLUSH_SLAVE_TIMEOUT}
        async with slave(tmp_path / "s", of) as to:
            await same(of, to)
    async with master(tmp_path / "m") as of, slave(tmp_path / "s", of):
        assert codes_of(await send(of, 30)) == OK


async def test_an_empty_slave_begins_with_the_newest_file(tmp_path: Path) -> None:
    async with master(tmp_path / "m", in_sync_replicas=1) as of:
        assert codes_of(await send(of, 300)) == OK
        begin = int(of.store.written_offset) // FILE * FILE
        assert begin > 0
        async with slave(tmp_path / "s", of) as to:
            await same(of, to, begin)
            assert to.store.log.segments.min_offset == begin
        async with slave(tmp_path / "s", of) as to:
            await send(of, 10)
            await same(of, to, begin)


async def test_a_slave_finds_its_master_again_after_its_restart(tmp_path: Path) -> None:
    async with master(tmp_path / "m") as of:
        address = of.options
        async with slave(tmp_path / "s", of) as to:
            assert codes_of(await send(of, 10)) == OK
            await of.stop()
            async with master(tmp_path / "m", ha_listen_port=address.replication.ha_listen_port) as again:
                assert codes_of(await send(again, 10)) <= {codes.SUCCESS, codes.FLUSH_SLAVE_TIMEOUT}
                await same(again, to)
                assert codes_of(await send(again, 10)) == OK


async def test_a_slave_becomes_master_and_the_old_master_follows_it(tmp_path: Path) -> None:
    async with master(tmp_path / "a") as of, slave(tmp_path / "b", of):
        assert codes_of(await send(of, 20)) == OK
    async with master(tmp_path / "b") as of, slave(tmp_path / "a", of) as to:
        assert codes_of(await send(of, 20, first=20)) == OK
        await same(of, to)
        assert of.store.max_queue_offset("T", 0) == 40


async def test_a_slave_with_a_tail_of_its_own_does_not_follow_and_says_where(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with master(tmp_path / "a") as of, slave(tmp_path / "b", of):
        assert codes_of(await send(of, 20)) == OK
    shutil.copytree(tmp_path / "a", tmp_path / "old")
    async with node_of(tmp_path / "old") as alone:
        await send(alone, 1, 700)
        end = int(alone.store.written_offset)
    async with master(tmp_path / "b", in_sync_replicas=1) as of:
        common = int(of.store.written_offset)
        async with slave(tmp_path / "old", of) as to:
            await until(lambda: "its log reached" in caplog.text or "sent no data from offset" in caplog.text)
            await send(of, 30)
            await until(lambda: f"this log diverges up to {end}" in caplog.text)
            assert int(to.store.written_offset) == end
            assert log_of(to)[:common] == log_of(of)[:common]


async def test_a_slave_with_a_tail_of_its_own_copies_no_progress_of_its_master(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Offsets of the master's log and queues mean other records in its own, longer log."""
    names = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kv.json")))
    await names.start()
    told = {"namesrv_addr": names.address}
    async with master(tmp_path / "a") as of, slave(tmp_path / "b", of):
        assert codes_of(await send(of, 20)) == OK
    shutil.copytree(tmp_path / "a", tmp_path / "old")
    async with node_of(tmp_path / "old") as alone:
        await send(alone, 60)
    async with master(tmp_path / "b", in_sync_replicas=1, **told) as of:
        await send(of, 20)
        async with slave(tmp_path / "old", of, **told) as to:
            assert int(to.store.written_offset) > int(of.store.written_offset)
            await until(lambda: "this log diverges up to" in caplog.text)
            of.parts.offsets.commit("g", "T", 0, 30, of.clock.now())
            tables = to.master_tables
            assert tables is not None
            for _ in range(2):
                rounds = tables.rounds
                tables.look_soon()
                await until(lambda before=rounds: tables.rounds > before)
            assert to.parts.offsets.query("g", "T", 0) == -1
    await names.stop()


def test_replicas_need_a_role_that_waits_for_them() -> None:
    with pytest.raises(ConfigError, match="inSyncReplicas = 2 needs brokerRole = SYNC_MASTER"):
        BrokerOptions.of(in_sync_replicas=2)


async def test_a_broker_alone_listens_nowhere(tmp_path: Path) -> None:
    async with node_of(tmp_path) as alone:
        assert alone._executor.replication is None
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", alone.port + 1)


async def test_a_topic_deleted_and_made_again_between_two_looks_is_the_same_on_both(tmp_path: Path) -> None:
    """The slave sees the topic in both tables; of its two queues one gets no message in its new life."""
    names = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kv.json")))
    await names.start()
    told = {"namesrv_addr": names.address}
    async with master(tmp_path / "m", **told) as of, slave(tmp_path / "s", of, **told) as to:
        tables, client = to.master_tables, await ClientConnection.connect(of.address, PATIENCE)

        async def ask(request: Command) -> None:
            assert (await client.request(request, PATIENCE)).code == codes.SUCCESS

        async def look_until(condition: Callable[[], bool]) -> None:
            assert tables is not None
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    rounds = tables.rounds
                    tables.look_soon()
                    await until(lambda before=rounds: tables.rounds > before)

        for queue in ("0", "1"):
            await ask(send_request("T", e=queue))
        of.parts.offsets.commit("g", "T", 1, 1, of.clock.now())
        await look_until(lambda: to.parts.offsets.query("g", "T", 1) == 1)
        await ask(make_request(codes.DELETE_TOPIC_IN_BROKER, 0, {"topic": "T"}))
        await ask(send_request("T", e="0"))
        assert (of.store.max_queue_offset("T", 0), of.store.max_queue_offset("T", 1)) == (1, 0)
        await look_until(lambda: to.store.max_queue_offset("T", 1) == 0)
        await same(of, to)
        assert to.parts.offsets.query("g", "T", 1) == -1
        client.close()
        await client.wait_closed()
    await names.stop()
