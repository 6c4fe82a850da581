"""Java clients over TLS against our name server and our broker, which take nothing else; each other neither."""

import sys
from pathlib import Path

import pytest

from proof.interop.java_artefacts import CLIENT_VERSIONS
from proof.interop.java_processes import JavaClient
from proof.interop.matrix import to_ours
from proof.kit.ports import reserve_port
from proof.kit.processes import ChildProcess
from proof.kit.small import SMALL_LOG
from tests.transport.certificates import Certificate, have_openssl

pytestmark = [
    pytest.mark.java,
    pytest.mark.xdist_group("java"),
    pytest.mark.skipif(not have_openssl(), reason="certificates are made with openssl"),
]
COUNT = 5


def daemon(name: str, home: Path, port: int, settings: dict[str, str]) -> ChildProcess:
    """One of our daemons with these settings."""
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "bolide.cli", name, "--listen", f"127.0.0.1:{port}", *words]
    process = ChildProcess(command, home / f"{name}.out", {"HOME": str(home)})
    process.wait_ready("ready")
    return process


@to_ours("TLS")
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_a_java_client_sends_and_consumes_over_tls(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = Certificate(tmp_path)
    tls = {"tlsMode": "enforcing", "tlsCertPath": certificate.cert, "tlsKeyPath": certificate.key}
    names, port = reserve_port(), reserve_port(1, -2)
    namesrv = daemon("namesrv", tmp_path, names, tls)
    store = {"storePathRootDir": str(tmp_path / "store"), "namesrvAddr": f"127.0.0.1:{names}"}
    broker = daemon("broker", tmp_path, port, {**tls, **store, **SMALL_LOG, "flushDiskType": "ASYNC_FLUSH"})
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dtls.enable=true -Dtls.client.authServer=false")
    client = JavaClient(tmp_path / "java", f"127.0.0.1:{names}", version)
    try:
        sent = client.call("send", topic="Tls", mode="sync", count=COUNT)
        assert [result["status"] for result in sent] == ["SEND_OK"] * COUNT
        client.call("consume", group="tls", topic="Tls")
        got = client.call("await", group="tls", count=COUNT)
        assert sorted(message["keys"] for message in got) == [f"sync-{i}" for i in range(COUNT)]
    finally:
        client.close()
        assert broker.stop() == 0, broker.output()
        assert namesrv.stop() == 0, namesrv.output()
