"""The log passes between brokers by TLS, with certificates on both sides; without, its port is not open to everyone."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.options.composed import BrokerOptions
from bolide.errors import ConfigError
from bolide.node.machine.node_world import RealNodeWorld
from bolide.node.replication.slave_port import log_address
from bolide.transport.raw_tls import MOST_SHAKING
from proof.kit.waiting import PATIENCE, until
from tests.node.replication.controlled import hand_over
from tests.node.replication.parts import OK, codes_of, master, node_of, same, send, slave
from tests.transport.certificates import Certificate, have_openssl

needs_openssl = pytest.mark.skipif(not have_openssl(), reason="openssl makes the certificates")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(tmp_path_factory.mktemp("strange"))


def serves(shown: Certificate, trusted: Certificate) -> dict[str, Any]:
    return {
        "ha_tls_enable": True,
        "tls_cert_path": shown.cert,
        "tls_key_path": shown.key,
        "tls_trust_cert_path": trusted.cert,
    }


def follows(shown: Certificate, trusted: Certificate) -> dict[str, Any]:
    return {
        "ha_tls_enable": True,
        "tls_client_cert_path": shown.cert,
        "tls_client_key_path": shown.key,
        "tls_client_trust_cert_path": trusted.cert,
    }


@needs_openssl
async def test_a_slave_follows_by_tls(tmp_path: Path, ours: Certificate) -> None:
    async with master(tmp_path / "a", **serves(ours, ours)) as of:
        async with slave(tmp_path / "b", of, **follows(ours, ours)) as to:
            assert codes_of(await send(of, 200)) == OK
            await same(of, to)


@needs_openssl
async def test_a_set_under_a_controller_passes_its_log_by_tls_and_hands_over(tmp_path: Path, ours: Certificate) -> None:
    await hand_over(tmp_path, **{**serves(ours, ours), **follows(ours, ours)})


@needs_openssl
async def test_who_has_no_certificate_gets_no_log(
    tmp_path: Path, ours: Certificate, strange: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with master(tmp_path / "a", in_sync_replicas=1, **serves(ours, ours)) as of:
        await send(of, 5)
        port = of.options.replication.ha_listen_port
        plain = await asyncio.open_connection("127.0.0.1", port)
        plain[1].write(bytes(8))
        assert await asyncio.wait_for(plain[0].read(), PATIENCE) != bytes(12), "an alert at most"
        plain[1].close()
        await until(lambda: "rejecting the slave 127.0.0.1" in caplog.text)
        nameless = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        nameless.check_hostname = False
        nameless.load_verify_locations(ours.cert)
        with pytest.raises((OSError, EOFError)):  # in TLS 1.3 the refusal comes with the first answer
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=nameless)
            try:
                writer.write(bytes(8))
                await asyncio.wait_for(reader.readexactly(12), PATIENCE)
            finally:
                writer.close()
        async with slave(tmp_path / "b", of, **follows(strange, ours)) as to:
            await until(lambda: "the connection to the master" in caplog.text)
            assert int(to.store.written_offset) == 0
        assert of._replication.side is not None and of._replication.side.connections(0) == []


@needs_openssl
async def test_a_slave_follows_no_stranger(
    tmp_path: Path, ours: Certificate, strange: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    async with master(tmp_path / "a", in_sync_replicas=1, **serves(strange, ours)) as of:
        await send(of, 5)
        async with slave(tmp_path / "b", of, **follows(ours, ours)) as to:
            await until(lambda: "cannot follow the master" in caplog.text)
            assert int(to.store.written_offset) == 0


@needs_openssl
async def test_idle_connections_keep_no_slave_out(tmp_path: Path, ours: Certificate) -> None:
    async with master(tmp_path / "a", in_sync_replicas=1, **serves(ours, ours)) as of:
        await send(of, 5)
        port = of.options.replication.ha_listen_port
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_SHAKING + 6)]
        assert await asyncio.wait_for(held[0][0].read(), PATIENCE) == b""
        assert not held[-1][0].at_eof(), "the oldest makes room"
        async with slave(tmp_path / "b", of, **follows(ours, ours)) as to:
            await same(of, to)
    for reader, writer in held:
        assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        writer.close()


@needs_openssl
async def test_a_handshake_that_does_not_end_is_given_up_at_the_stop(tmp_path: Path, ours: Certificate) -> None:
    async with master(tmp_path / "a", in_sync_replicas=1, **serves(ours, ours)) as of:
        reader, writer = await asyncio.open_connection("127.0.0.1", of.options.replication.ha_listen_port)
        entrance = of._slave_port._shaking
        assert entrance is not None
        await until(lambda: len(entrance.shaking) == 1)
    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
    writer.close()


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({}, "tlsCertPath, tlsKeyPath, tlsTrustCertPath"),
        ({"broker_role": "SLAVE", "broker_id": 1}, "tlsClientCertPath, tlsClientKeyPath, tlsClientTrustCertPath"),
    ],
)
def test_both_sides_need_certificates(settings: dict[str, Any], missing: str) -> None:
    with pytest.raises(ConfigError, match=f"haTlsEnable = true needs {missing}: both"):
        BrokerOptions.of(ha_tls_enable=True, **settings)


async def test_without_tls_the_log_is_served_on_the_address_of_the_set_only(tmp_path: Path) -> None:
    world = RealNodeWorld()
    anywhere = {"bind_address": "0.0.0.0"}
    assert log_address(BrokerOptions.of(broker_ip1="10.0.0.1", **anywhere), world) == "10.0.0.1"
    assert log_address(BrokerOptions.of(broker_ip1="10.0.0.1", broker_ip2="10.0.1.1", **anywhere), world) == "10.0.1.1"
    assert log_address(BrokerOptions.of(bind_address="127.0.0.2", broker_ip2="127.0.0.3"), world) == "127.0.0.2"
    shown = {"tls_cert_path": "a", "tls_key_path": "a", "tls_trust_cert_path": "a"}
    by_tls = BrokerOptions.of(ha_tls_enable=True, broker_ip2="10.0.1.1", **shown, **anywhere)
    assert log_address(by_tls, world) == "0.0.0.0"
    settings = {"broker_role": "SYNC_MASTER", "broker_ip1": "127.0.0.1", "broker_ip2": "127.0.0.2", **anywhere}
    async with node_of(tmp_path, **settings) as of:
        port = of._slave_port.number
        with socket.create_connection(("127.0.0.2", port), PATIENCE):
            pass
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), PATIENCE)
