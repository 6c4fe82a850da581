"""Java clients over TLS against our name server and our broker, which take nothing else; each other neither."""

from pathlib import Path

import pytest

from proof.interop.java_artefacts import CLIENT_VERSIONS
from proof.interop.java_processes import JavaClient
from proof.interop.matrix import to_ours
from proof.kit.our_processes import OurBroker, OurNameServer
from tests.transport.certificates import Certificate, have_openssl

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(not have_openssl(), reason="certificates are made with openssl"),
]
COUNT = 5


@to_ours("TLS")
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_a_java_client_sends_and_consumes_over_tls(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = Certificate(tmp_path)
    tls = {"tlsMode": "enforcing", "tlsCertPath": certificate.cert, "tlsKeyPath": certificate.key}
    namesrv = OurNameServer(tmp_path, tls)
    broker = OurBroker(tmp_path, namesrv.address, {**tls, "flushDiskType": "ASYNC_FLUSH"})
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dtls.enable=true -Dtls.client.authServer=false")
    client = JavaClient(tmp_path / "java", namesrv.address, version)
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
