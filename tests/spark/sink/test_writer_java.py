"""The sink against a Java 5.5.0 broker: every column, batches, and exactly once with the limits its protocol has."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.layout.properties import parse_properties_bytes
from bolide.spark.errors import ClusterUnavailable, RowRefused
from bolide.spark.sink.committing import CommitParts
from bolide.spark.sink.endings import Ender
from bolide.spark.sink.half_handles import HalfRun
from bolide.spark.sink.messages import Task
from bolide.transport.blocking import PendingRun
from proof.interop.java_processes import JavaBroker, JavaNameServer
from proof.kit.waiting import wait_until
from tests.client.patient_blocking import Admin
from tests.spark.sink_rounds import bodies, commit, records, stream_writer, write

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("writer-java")]

ROWS = [b"%d" % number for number in range(200)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """A name server and a broker; the broker may be replaced by another one on its store."""
    home = tmp_path_factory.mktemp("java")
    namesrv = JavaNameServer(home / "namesrv")
    servers: list[Any] = [namesrv, JavaBroker(home / "broker", namesrv.address, {"fileReservedTime": "72"})]
    yield servers
    for server in reversed(servers):
        server.kill()


@pytest.fixture
def options(cluster: list[Any], request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    topic = f"T{zlib.crc32(request.node.name.encode())}"
    with Admin(cluster[0].address) as admin:
        admin.create_topic(topic, queues=3)
    return {
        "namesrv": cluster[0].address,
        "topic": topic,
        "mode": "exactly-once",
        "checkpointLocation": str(tmp_path),
        "deliveryTimeoutMs": "60000",
    }


def seen(options: dict[str, str]) -> list[bytes]:
    return bodies(options["namesrv"], options["topic"])


def all_seen(options: dict[str, str]) -> list[bytes]:
    """What is visible once it is as much as was written: Java answers an END before its queues know the message."""
    wait_until(lambda: len(seen(options)) >= len(ROWS), "what was committed is visible")
    return seen(options)


def test_rows_in_batches_with_every_column(options: dict[str, str]) -> None:
    plain = {name: options[name] for name in ("namesrv", "topic")}
    soon = int(time.time() * 1000) + 3_000
    write(
        plain,
        Task("q", 0, 0),
        [*ROWS, b"delayed", b"timed"],
        tags=["a"] * 202,
        keys=["k1 k2"] * 202,
        flag=[7] * 202,
        delay_level=[None] * 200 + [1, None],
        deliver_time=[None] * 201 + [soon],
    )
    wait_until(lambda: len(seen(options)) == 202, "the delayed messages arrive")
    found = records(options["namesrv"], options["topic"])
    assert sorted(record.body for record in found) == sorted([*ROWS, b"delayed", b"timed"])
    for record in found:
        properties = parse_properties_bytes(record.properties)
        assert (properties["TAGS"], properties["KEYS"], record.flag) == ("a", "k1 k2", 7)
        assert len(properties["UNIQ_KEY"]) == 32
    (timed,) = (record for record in found if record.body == b"timed")
    assert timed.store_timestamp >= soon - 1_100


def test_a_row_too_large_is_named(options: dict[str, str]) -> None:
    plain = {name: options[name] for name in ("namesrv", "topic")}
    with pytest.raises(RowRefused, match="partition 2, row 1, topic .* answered 13"):
        write(plain, Task("q", 0, 2), [b"x", b"y" * (4 * 1024 * 1024 + 1)])


def test_a_replay_and_its_zombies_add_nothing(options: dict[str, str]) -> None:
    first = write(options, Task("q1", 0, 0), ROWS)
    zombie = write(options, Task("q1", 0, 0, 1), ROWS)
    assert seen(options) == []
    commit(options, [first], 0)
    for _ in range(2):
        commit(options, [zombie], 0)
        assert all_seen(options) == sorted(ROWS)


def test_a_commit_cut_short_goes_on_with_what_is_not_visible(options: dict[str, str], cluster: list[Any]) -> None:
    """Its END is repeated for none of the messages that are there, though Java would store them again."""
    written = write(options, Task("q2", 0, 0), ROWS)
    left = [70]

    class Killed(Ender):
        together = 1

        def send_ends(self, run: HalfRun, how: int) -> PendingRun | None:
            left[0] -= 1
            if left[0] == 0:
                raise ClusterUnavailable("killed")
            return super().send_ends(run, how) if left[0] > 0 else None

    with pytest.raises(ClusterUnavailable):
        commit({**options, "deliveryTimeoutMs": "1"}, [written], 0, CommitParts(ender=Killed))
    # How many of the 69 arrived is the network's secret: a connection that is dropped may take some along.
    wait_until(lambda: len(seen(options)) > 0, "some of what was ended is there")
    assert len(seen(options)) < len(ROWS)
    broker = cluster[1]
    broker.kill()
    cluster[1] = JavaBroker(broker.home, cluster[0].address, {"fileReservedTime": "72"}, port=broker.port)
    commit(options, [write(options, Task("q2", 0, 0, 1), ROWS)], 0)
    assert all_seen(options) == sorted(ROWS)
    stream_writer(options).abort([written], 0)
    assert all_seen(options) == sorted(ROWS)
