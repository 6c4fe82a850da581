"""Source and sink at a cluster that accepts no plain connection, and asks every client for a certificate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.errors import ConfigError
from bolide.spark.errors import ClusterUnavailable
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.source_options import read_options
from bolide.testing.broker import Broker
from tests.transport.certificates import Certificate, have_openssl

pytestmark = pytest.mark.skipif(not have_openssl(), reason="certificates are made with openssl")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def strict(certificate: Certificate) -> Iterator[Broker]:
    pair = {"cert_path": certificate.cert, "key_path": certificate.key}
    settings = {"tls_mode": "enforcing", "tls_need_client_auth": "require", "tls_trust_cert_path": certificate.cert}
    settings |= {f"tls_{name}": path for name, path in pair.items()}
    settings |= {f"tls_client_{name}": path for name, path in pair.items()}
    with Broker(**settings) as broker:
        broker.create_topic("Tls", queues=2)
        yield broker


@pytest.fixture
def options(strict: Broker, certificate: Certificate) -> dict[str, str]:
    return {
        "namesrv": strict.namesrv_addr,
        "tlsEnable": "true",
        "tlsClientAuthServer": "true",
        "tlsClientCheckName": "true",
        "tlsClientTrustCertPath": certificate.cert,
        "tlsClientCertPath": certificate.cert,
        "tlsClientKeyPath": certificate.locked_key,
        "tlsClientKeyPassword": "secret",
    }


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_rows_go_there_and_back(spark: Any, options: dict[str, str], tmp_path: Path) -> None:
    large = "x" * 300_000  # many TLS records, and more than a read takes
    rows = spark.range(0, 20, 1, 2).selectExpr(f"concat(id, '{large}') AS body")
    rows.write.format("rocketmq").mode("append").options(**options, topic="Tls", mode="exactly-once").save()
    source = spark.readStream.format("rocketmq").options(**options, subscribe="Tls", startingOffsets="earliest").load()
    query = (
        source.writeStream.format("memory")
        .queryName("tls")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    sizes = [len(row.body) for row in spark.table("tls").collect()]
    assert sorted(sizes) == [300_001] * 10 + [300_002] * 10


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"tlsEnable": None}, "closed by the peer|reset by peer|was lost"),
        ({"tlsClientCertPath": None}, "TLS with .* failed|the connection to .* was (lost|closed)"),
        ({"tlsClientTrustCertPath": None}, "TLS with 127.0.0.1:.* failed: .*certificate verify failed"),
    ],
    ids=["plain", "no-certificate", "unknown-server"],
)
def test_rejected_client_gets_the_reason(options: dict[str, str], changed: dict[str, None], says: str) -> None:
    left = {name: value for name, value in options.items() if name not in changed}
    if "tlsEnable" in changed:
        left = {"namesrv": options["namesrv"]}
    if "tlsClientCertPath" in changed:
        del left["tlsClientKeyPath"]
    cluster = Cluster(read_options({**left, "subscribe": "Tls"}), pause_s=0.01)
    with pytest.raises(ClusterUnavailable, match=f"name server at .* did not respond in 3 rounds: .*({says})"):
        cluster.queues(["Tls"])
    cluster.close()


def test_the_name_in_the_certificate_is_compared_when_asked_for(options: dict[str, str]) -> None:
    options["namesrv"] = options["namesrv"].replace("127.0.0.1", "localhost")
    cluster = Cluster(read_options({**options, "subscribe": "Tls"}), pause_s=0.01)
    with pytest.raises(ClusterUnavailable, match="not valid for 'localhost'"):
        cluster.queues(["Tls"])
    cluster.close()
    other = Cluster(read_options({**options, "subscribe": "Tls", "tlsClientCheckName": "false"}), pause_s=0.01)
    assert len(other.queues(["Tls"])) == 2
    other.close()


def test_a_file_that_is_not_there_is_named(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"tlsClientTrustCertPath = 'gone.pem' is not a file: give the path"):
        Cluster(read_options({**options, "subscribe": "Tls", "tlsClientTrustCertPath": "gone.pem"}))
