"""A cluster without a plain connection: the broker registers over TLS, and clients and tools follow it."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from bolide.broker.options.composed import BrokerOptions
from bolide.client import Message
from bolide.errors import ConfigError
from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.namesrv import NamesrvNode
from bolide.node.routes.name_servers import name_server_context
from bolide.node.settings.config import load_options
from tests.client.patient import Admin, Producer
from tests.node.brokers import options
from tests.transport.certificates import Certificate, have_openssl

pytestmark = pytest.mark.skipif(not have_openssl(), reason="certificates are made with openssl")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(tmp_path_factory.mktemp("certificate"))


def enforcing(certificate: Certificate) -> dict[str, str]:
    return {"tls_mode": "enforcing", "tls_cert_path": certificate.cert, "tls_key_path": certificate.key}


@pytest.mark.parametrize("verified", [False, True], ids=["any-certificate", "verified"])
async def test_broker_client_and_admin_reach_an_enforcing_name_server(
    tmp_path: Path, certificate: Certificate, verified: bool
) -> None:
    tls = enforcing(certificate)
    namesrv = NamesrvNode(NamesrvOptions(listen_port=0, **tls))  # type: ignore[arg-type] # all are texts
    await namesrv.start()
    more = {"tls_client_auth_server": verified, "tls_client_trust_cert_path": certificate.cert if verified else ""}
    node = BrokerNode(options(tmp_path / "store", namesrv_addr=namesrv.address, **tls, **more))
    await node.start()
    try:
        context = ssl.create_default_context(cafile=certificate.cert)
        async with Producer("p", namesrv.address, ssl=context) as producer:
            assert (await producer.send(Message("Tls", b"x"))).queue_offset == 0
        async with Admin(namesrv.address, ssl=context) as admin:
            assert "Tls" in await admin.topics()
    finally:
        await node.stop()
        await namesrv.stop()


async def test_a_name_server_nobody_vouches_for_is_refused_when_told_so(
    tmp_path: Path, certificate: Certificate
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    namesrv = NamesrvNode(NamesrvOptions(listen_port=0, **enforcing(certificate)))  # type: ignore[arg-type] # all texts
    await namesrv.start()
    strict = {"tls_enable": "true", "tls_client_auth_server": True}
    trusting = {"tls_client_trust_cert_path": Certificate(other).cert}
    node = BrokerNode(options(tmp_path / "store", namesrv_addr=namesrv.address, **strict, **trusting))
    await node.start()
    try:
        assert not namesrv.knows_topic("TBW102")
    finally:
        await node.stop()
        await namesrv.stop()


def test_whether_tls_is_spoken_is_as_in_java(certificate: Certificate) -> None:
    assert name_server_context(BrokerOptions()) is None
    assert name_server_context(BrokerOptions.of(tls_mode="enforcing")) is not None
    assert name_server_context(BrokerOptions.of(tls_mode="enforcing", tls_enable="false")) is None
    assert name_server_context(BrokerOptions.of(tls_enable="true")) is not None
    with pytest.raises(ConfigError, match="tlsClientKeyPath is missing"):
        name_server_context(BrokerOptions.of(tls_enable="true", tls_client_cert_path=certificate.cert))
    with pytest.raises(ConfigError, match="tlsClientTrustCertPath = .* is not a file"):
        name_server_context(
            BrokerOptions.of(tls_enable="true", tls_client_auth_server=True, tls_client_trust_cert_path="gone.pem")
        )


def test_javas_own_keys_are_taken(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("tls.enable=true\ntls.client.authServer=true\ntls.client.keyPassword=x\n")
    loaded = load_options(BrokerOptions, None, str(conf), {})
    assert loaded.warnings == []
    tls = loaded.options.tls
    assert (tls.tls_enable, tls.tls_client_auth_server, tls.tls_client_key_password) == ("true", True, "x")
