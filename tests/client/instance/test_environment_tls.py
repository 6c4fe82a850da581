"""TLS that only the environment asks for, up to the command line."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bolide.client.instance.environment_tls import environment_ssl
from bolide.client.instance.options import ClientOptions
from bolide.errors import ConfigError
from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.namesrv import NamesrvNode
from proof.kit.waiting import PROCESS_PATIENCE
from tests.node.brokers import options
from tests.transport.certificates import Certificate, have_openssl


def test_tls_context_follows_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOLIDE_TLS_ENABLE", raising=False)
    assert environment_ssl() is None
    monkeypatch.setenv("BOLIDE_TLS_ENABLE", "true")
    options = ClientOptions.of("127.0.0.1:1", client_id="c")
    assert options.ssl is not None
    assert options == ClientOptions.of("127.0.0.1:1", client_id="c")
    monkeypatch.setenv("BOLIDE_TLS_CLIENT_TRUST_CERT_PATH", "gone.pem")
    monkeypatch.setenv("BOLIDE_TLS_CLIENT_AUTH_SERVER", "true")
    with pytest.raises(ConfigError, match="tlsClientTrustCertPath = 'gone.pem' is not a file"):
        environment_ssl()
    monkeypatch.setenv("BOLIDE_TLS_ENABLE", "perhaps")
    with pytest.raises(ConfigError, match="BOLIDE_TLS_ENABLE is 'perhaps': it must be true or false"):
        environment_ssl()


@pytest.mark.skipif(not have_openssl(), reason="certificates are made with openssl")
async def test_the_command_line_reaches_a_cluster_without_a_plain_connection(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    tls = {"tls_mode": "enforcing", "tls_cert_path": certificate.cert, "tls_key_path": certificate.key}
    environment = {
        **os.environ,
        "BOLIDE_TLS_ENABLE": "true",
        "BOLIDE_TLS_CLIENT_AUTH_SERVER": "true",
        "BOLIDE_TLS_CLIENT_TRUST_CERT_PATH": certificate.cert,
    }
    namesrv = NamesrvNode(NamesrvOptions(listen_port=0, **tls))  # type: ignore[arg-type] # all are texts
    await namesrv.start()
    node = BrokerNode(options(tmp_path / "store", namesrv_addr=namesrv.address, **tls))
    await node.start()
    command = [sys.executable, "-m", "bolide.cli", "cluster", "list", "-n", namesrv.address, "--json"]
    try:
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PROCESS_PATIENCE,
            check=False,
        )
    finally:
        await node.stop()
        await namesrv.stop()
    assert done.returncode == 0, done.stderr
    assert "broker-a" in done.stdout
