"""A slave that does not replicate reports the reason as long as it lasts, and logs it once."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.core.replicas import Replicas
from bolide.node.broker import BrokerNode
from bolide.node.replication.epoch_file import NAME
from bolide.node.replication.switching import Switching
from proof.kit.waiting import until
from tests.node.replication.controlled import controlled, elect
from tests.node.replication.parts import FILE, OK, codes_of, log_of, master, same, send, slave

CREDENTIALS = '{"accessKey":"cluster","secretKey":"secret-1"}'


def replicas_of(node: BrokerNode) -> Replicas:
    return node.parts.inspection.replicas


def attempts(of: BrokerNode) -> int:
    """The number of connections that this master has accepted."""
    side: Any = of._replication.side
    return int(side.side._keys if isinstance(side, Switching) else side._keys)


def lines(caplog: pytest.LogCaptureFixture) -> Counter[str]:
    """How often each line about a connection was logged, whatever the ports."""
    logged = [record for record in caplog.records if record.module in ("ha_client", "slave_links")]
    assert logged
    return Counter(re.sub(r":\d+", "", record.getMessage()) for record in logged)


async def remains_refused(side: Replicas, of: BrokerNode, caplog: pytest.LogCaptureFixture) -> None:
    """A slave connects to this master several times more. It reports the reason throughout, and nothing is logged
    again."""
    first = attempts(of)
    while attempts(of) < first + 8:
        await asyncio.sleep(0.001)
        assert side.refused()
    assert max(lines(caplog).values()) <= 2, lines(caplog).most_common(3)


async def test_slave_that_cannot_append_reports_it_all_the_time_and_logs_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with master(tmp_path / "m", in_sync_replicas=1) as of:
        async with slave(tmp_path / "s", of, mapped_file_size_commit_log=FILE // 2) as to:
            assert codes_of(await send(of, 3)) == OK
            await same(of, to)
            assert codes_of(await send(of, 300)) == OK
            side = replicas_of(to)
            await until(lambda: "set mappedFileSizeCommitLog to the size that it has" in side.refused())
            end = int(to.store.written_offset)
            assert 0 < end < FILE // 2
            await remains_refused(side, of, caplog)
            assert int(to.store.written_offset) == end


async def test_slave_reports_a_master_that_closes_its_connection_before_it_sends_the_log(tmp_path: Path) -> None:
    def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with master(tmp_path / "m", in_sync_replicas=1) as of:
        server = await asyncio.start_server(close, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with slave(tmp_path / "s", of, ha_master_address=address) as to:
            link: Any = to._replication.side
            await until(lambda: f"the master {address} closes the connection" in link.refused())
            link.follow(f"127.0.0.1:{of.options.replication.ha_listen_port}")
            await same(of, to)
            await until(lambda: link.refused() == "")
        server.close()
        await server.wait_closed()


async def test_replica_that_cannot_write_its_epochs_reports_it_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with controlled(tmp_path) as of:
        first, second = await of.pair(all_ack_in_sync_state_set=True)
        assert codes_of(await send(first, 3)) == OK
        await same(first, second)
        blocked = tmp_path / "b" / f"{NAME}.tmp"
        blocked.mkdir()
        await elect(of, 2)
        await until(lambda: "cannot become the master of epoch 2: cannot write" in replicas_of(second).refused())
        blocked.rmdir()
        blocked = tmp_path / "a" / f"{NAME}.tmp"
        blocked.mkdir()
        await of.leads(second)
        assert replicas_of(second).refused() == ""
        await until(lambda: f"cannot write {tmp_path}/a/{NAME}" in replicas_of(first).refused())
        await remains_refused(replicas_of(first), second, caplog)
        blocked.rmdir()
        await of.all_in_sync(1, 2)
        assert codes_of(await send(second, 3)) == OK
        await until(lambda: replicas_of(first).refused() == "")
        await same(second, first)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "it is a master of the set DefaultCluster#broker-b, but this replica belongs to the set"),
        (
            {"cluster_authentication_enabled": True, "inner_client_authentication_credentials": CREDENTIALS},
            "set the same innerClientAuthenticationCredentials, brokerClusterName and brokerName there",
        ),
    ],
)
async def test_replica_that_is_led_to_another_set_copies_and_acknowledges_nothing(
    tmp_path: Path, settings: dict[str, Any], reason: str
) -> None:
    """Both sets are young: their ids and epochs are the same."""
    more = {"in_sync_replicas": 2, **settings}
    async with controlled(tmp_path) as of:
        _, replica = await of.pair(**more)
        other = await of.start("x", broker_name="broker-b", **more)
        await of.leads(other)
        fellow = await of.start("y", broker_name="broker-b", **more)
        await until(lambda: replicas_of(other).in_sync(0) == 1)
        assert codes_of(await send(other, 5)) == OK
        keys = attempts(other)
        await of.controller.stop()  # so that the replica is not elected
        await of.stop("a")
        link: Any = replica._replication.side
        address = f"127.0.0.1:{other.options.replication.ha_listen_port}"
        await until(lambda: link.master_told(address) or reason in link.refused())
        assert log_of(replica) == b""
        assert codes_of(await send(other, 5)) == OK, "its own replica is still connected"
        await same(other, fellow)
        (connection,) = replicas_of(other).connections(0)
        assert connection.in_sync
        assert attempts(other) > keys or settings
