"""With `clusterAuthenticationEnabled` the log passes between brokers of the cluster only, and unchanged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bolide.access.proven_stream import HELLO
from bolide.broker.options.composed import BrokerOptions
from bolide.errors import ConfigError
from bolide.transport.raw_proven import MOST_PENDING
from proof.kit.waiting import PATIENCE, until
from tests.node.replication.controlled import hand_over
from tests.node.replication.parts import OK, codes_of, log_of, master, same, send, slave

CREDENTIALS: dict[str, Any] = {
    "inner_client_authentication_credentials": '{"accessKey":"cluster","secretKey":"secret-1"}'
}
MEMBER = {"cluster_authentication_enabled": True, **CREDENTIALS}
BODY, FORGED = b"1 " + bytes(9), b"1 " + b"forgery!!"
STRANGER = {**MEMBER, "inner_client_authentication_credentials": '{"accessKey":"cluster","secretKey":"a guess"}'}


@pytest.mark.parametrize("of_settings", [MEMBER, CREDENTIALS])
async def test_slave_that_proves_itself_follows(tmp_path: Path, of_settings: dict[str, Any]) -> None:
    async with master(tmp_path / "a", **of_settings) as of:
        async with slave(tmp_path / "b", of, **MEMBER) as to:
            assert codes_of(await send(of, 50)) == OK
            await same(of, to)


async def test_slave_without_proof_follows_a_master_that_does_not_demand_it(tmp_path: Path) -> None:
    async with master(tmp_path / "a", **CREDENTIALS) as of:
        async with slave(tmp_path / "b", of) as to:
            assert codes_of(await send(of, 20)) == OK
            await same(of, to)


async def test_set_under_a_controller_hands_over(tmp_path: Path) -> None:
    await hand_over(tmp_path, **MEMBER)


async def test_only_slaves_that_prove_themselves_get_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with master(tmp_path / "a", in_sync_replicas=1, **MEMBER) as of:
        await send(of, 5)
        port = of.options.replication.ha_listen_port
        liars = [bytes(8), (1).to_bytes(4, "big") + bytes(8), HELLO + bytes(32) + b"\0\7cluster" + bytes(200)]
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in liars]
        for (_, writer), begin in zip(held, liars, strict=True):
            writer.write(begin)
        await until(lambda: "its secret, brokerClusterName or brokerName differs" in caplog.text)
        assert "rejecting the slave 127.0.0.1" in caplog.text
        assert "set clusterAuthenticationEnabled and innerClientAuthenticationCredentials there" in caplog.text
        async with slave(tmp_path / "b", of, **STRANGER) as to:
            await until(lambda: "cannot follow the master" in caplog.text)
            assert int(to.store.written_offset) == 0
        held += [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_PENDING + 6)]
        try:
            assert of._replication.side is not None and of._replication.side.connections(0) == []
            async with slave(tmp_path / "c", of, **MEMBER) as to:
                await same(of, to)
        finally:
            for _, writer in held:
                writer.close()
    assert [await asyncio.wait_for(reader.read(), PATIENCE) for reader, _ in held[:2]] == [b"", b""]


async def test_connections_without_proof_are_closed_in_time_and_at_the_stop(tmp_path: Path) -> None:
    async with master(tmp_path / "a", in_sync_replicas=1, ha_housekeeping_interval=50, **MEMBER) as of:
        for begin in (b"", bytes(8)):
            reader, writer = await asyncio.open_connection("127.0.0.1", of.options.replication.ha_listen_port)
            writer.write(begin)
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
            writer.close()
    async with master(tmp_path / "b", in_sync_replicas=1, **MEMBER) as of:
        reader, writer = await asyncio.open_connection("127.0.0.1", of.options.replication.ha_listen_port)
        await until(lambda: len(of._slave_port._shaking.pending) == 1)
    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
    writer.close()


@pytest.mark.parametrize("answer", [b"", bytes(20), HELLO + bytes(32) + bytes(20)])
async def test_slave_follows_no_master_that_does_not_prove_itself(
    tmp_path: Path, answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[bytes] = []

    async def fake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1000))
        writer.write(answer)
        await reader.read(1000)
        writer.close()

    server = await asyncio.start_server(fake, "127.0.0.1", 0)
    try:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        settings = {"broker_role": "SLAVE", "broker_id": 1, "ha_master_address": address}
        async with master(tmp_path, **{**settings, **MEMBER}) as to:
            await until(lambda: f"cannot follow the master {address}: it" in caplog.text)
            assert int(to.store.written_offset) == 0
        assert b"secret-1" not in heard[0]
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def between(port: int, change: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """The address of a relay in front of this port that changes the bytes of the master."""

    async def carry(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Callable[[bytes], bytes]
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(change(data))
        except OSError:
            pass
        writer.close()

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        their_reader, their_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, their_writer, bytes), carry(their_reader, writer, change))

    server = await asyncio.start_server(passed_on, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


async def test_relay_of_the_proof_cannot_change_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    changed: list[bytes] = []

    def forge(data: bytes) -> bytes:
        if BODY not in data:
            return data
        changed.append(data)
        return data.replace(BODY, FORGED)

    async with master(tmp_path / "a", in_sync_replicas=1, **MEMBER) as of:
        async with between(of.options.replication.ha_listen_port, forge) as address:
            async with slave(tmp_path / "b", of, **{**MEMBER, "ha_master_address": address}) as to:
                assert codes_of(await send(of, 3)) == OK
                await until(lambda: "its bytes were changed on the way" in caplog.text)
                assert changed and FORGED not in log_of(to)
        async with slave(tmp_path / "b", of, **MEMBER) as to:
            await same(of, to)


def test_switch_needs_credentials() -> None:
    with pytest.raises(ConfigError, match="needs innerClientAuthenticationCredentials"):
        BrokerOptions.of(cluster_authentication_enabled=True)
