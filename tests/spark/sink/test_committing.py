"""The exactly-once sink moment by moment, against a real broker: replays, zombies, aborts, half-done commits."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bolide.spark.errors import ClusterUnavailable, DataLost
from bolide.spark.sink.batch_log import SUFFIX, BatchDecision, BatchLog
from bolide.spark.sink.committing import CommitParts
from bolide.spark.sink.endings import Ender
from bolide.spark.sink.half_handles import HalfRun
from bolide.spark.sink.messages import Task
from bolide.spark.sink.sink_options import sink_options
from bolide.testing.broker import Broker
from bolide.transport.blocking import PendingRun
from tests.spark.sink_rounds import bodies, commit, records, stream_writer, undecided, write

ONE = [b"1-%d" % number for number in range(20)]
TWO = [b"2-%d" % number for number in range(20)]


@pytest.fixture
def options(bolide_broker: Broker, tmp_path: Path) -> dict[str, str]:
    bolide_broker.create_topic("Out", queues=2)
    return {
        "namesrv": bolide_broker.namesrv_addr,
        "topic": "Out",
        "mode": "exactly-once",
        "checkpointLocation": str(tmp_path / "checkpoint"),
        "deliveryTimeoutMs": "60000",
    }


class Quick(Ender):
    """What waits for a slow broker need not wait long for this one."""

    late = 0.5


def seen(options: dict[str, str]) -> list[bytes]:
    return bodies(options["namesrv"], "Out")


def task(partition: int = 0, batch: int = 0, attempt: int = 0, run: str = "first") -> Task:
    return Task("q", batch, partition, attempt, run)


def open_halves(options: dict[str, str]) -> int:
    return undecided(options["namesrv"], "Out")


def test_messages_are_visible_once_and_only_after_the_commit(options: dict[str, str]) -> None:
    written = [write(options, task(0), ONE), write(options, task(1), TWO)]
    assert seen(options) == []
    commit(options, written, 0)
    assert seen(options) == sorted(ONE + TWO)
    commit(options, written, 0)
    assert seen(options) == sorted(ONE + TWO)


def test_a_replay_and_its_zombies_add_nothing(options: dict[str, str]) -> None:
    first = write(options, task(), ONE)
    writer = stream_writer(options)  # made before the decision, as by a driver that is replaced
    zombie = write(options, task(attempt=1), ONE)
    commit(options, [first], 0)
    commit(options, [zombie], 0)
    late = writer.write_task(iter([]), task(attempt=2))
    commit(options, [late], 0)
    assert seen(options) == sorted(ONE)
    skipped = write(options, task(run="second"), ONE)
    assert skipped.skipped and not len(skipped.handles)
    commit(options, [skipped], 0)
    commit(options, [write(options, task(batch=1, run="second"), TWO)], 1)
    assert seen(options) == sorted(ONE + TWO)
    assert open_halves(options) == 0


def test_halves_of_a_killed_task_are_rolled_back_by_the_next_commit(options: dict[str, str]) -> None:
    write(options, task(run="none"), ONE)  # its driver dies before it hears of it
    assert open_halves(options) == len(ONE)
    commit(options, [write(options, task(), ONE)], 0)
    assert open_halves(options) == 0
    write(options, task(batch=1), TWO)
    assert open_halves(options) == len(TWO)
    commit(options, [write(options, task(batch=1, run="second"), TWO)], 1)
    assert seen(options) == sorted(ONE + TWO)
    assert open_halves(options) == 0


def test_a_late_commit_of_a_dead_driver_leaves_the_next_batch_alone(options: dict[str, str]) -> None:
    zombie = write(options, task(attempt=1), ONE)
    commit(options, [write(options, task(run="second"), ONE)], 0)
    following = write(options, task(batch=1, run="second"), TWO)
    commit(options, [zombie], 0)
    assert open_halves(options) == len(TWO)
    commit(options, [following], 1)
    assert seen(options) == sorted(ONE + TWO)


@pytest.mark.bolide_broker(transaction_check_interval=200, transaction_time_out=100, file_reserved_time=1)
def test_a_message_born_long_ago_waits_for_its_commit(options: dict[str, str]) -> None:
    """Checks look at half messages every now and then, and must not give up one that is older than its batch."""
    old = int(time.time() * 1000) - 10 * 86_400_000
    written = write(options, task(), ONE, born_timestamp=[old] * len(ONE))
    until = time.monotonic() + 3.0
    while time.monotonic() < until:
        assert open_halves(options) == len(ONE)
    commit(options, [written], 0)
    assert seen(options) == sorted(ONE)
    assert {record.born_timestamp for record in records(options["namesrv"], "Out")} == {old}


@pytest.mark.parametrize("line", ["decide", "finish"])
def test_a_commit_that_failed_goes_on_where_it_stopped(options: dict[str, str], line: str) -> None:
    written = [write(options, task(), ONE)]

    class Dying(BatchLog):
        def decide(self, batch: int, decision: BatchDecision) -> bool:
            if line == "decide":
                raise ClusterUnavailable("the driver dies here")
            return super().decide(batch, decision)

        def finish(self, batch: int, topic: str | None = None) -> None:
            raise ClusterUnavailable("the driver dies here")

    with pytest.raises(ClusterUnavailable):
        commit(options, written, 0, CommitParts(Dying, Quick))
    assert seen(options) == ([] if line == "decide" else sorted(ONE))
    commit(options, written, 0)
    assert seen(options) == sorted(ONE)


def test_an_abort_after_a_failed_commit_gives_nothing_up(options: dict[str, str]) -> None:
    """Spark calls abort with the same messages when commit has raised."""
    written = [write(options, task(), ONE)]
    left = [5]

    class Cut(Quick):
        together = 1

        def send_ends(self, run: HalfRun, how: int) -> PendingRun | None:
            left[0] -= 1
            return super().send_ends(run, how) if left[0] >= 0 else None

    with pytest.raises(ClusterUnavailable, match="15 of 20 half messages are not committed"):
        commit({**options, "deliveryTimeoutMs": "4000"}, written, 0, CommitParts(ender=Cut))
    assert len(seen(options)) == 5
    stream_writer(options).abort(written, 0)
    commit(options, [write(options, task(attempt=1), ONE)], 0)
    assert seen(options) == sorted(ONE)


def test_an_abort_before_the_decision_gives_everything_up(options: dict[str, str]) -> None:
    written = write(options, task(), ONE)
    stream_writer(options).abort([written, None], 0)
    assert open_halves(options) == 0
    commit(options, [write(options, task(), TWO)], 0)
    assert seen(options) == sorted(TWO)


def test_a_half_message_that_was_given_up_is_reported(options: dict[str, str]) -> None:
    written = write(options, task(), ONE)
    ender = Quick(sink_options(options, streaming=True), "q", 0)
    ender.roll_back(list(written.handles)[:3])
    ender.close()
    with pytest.raises(DataLost, match="3 half messages of this batch"):
        commit(options, [written], 0, CommitParts(ender=Quick))
    assert len(seen(options)) == 17


def test_rows_put_aside_come_with_their_batch_once(options: dict[str, str], tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder = tmp_path / "dead"
    options = {**options, "deadLetterPath": str(folder)}
    rows = [b"good", b"", None, b"fine"]
    write(options, task(attempt=0), rows)
    written = write(options, task(attempt=1), rows)
    assert not list(folder.glob("*.parquet"))
    for _ in range(2):
        commit(options, [written], 0)
    table = pq.read_table(folder, ignore_prefixes=["_"]).to_pylist()
    assert [(row["row"], row["partition"], row["batch"]) for row in table] == [(1, 0, 0), (2, 0, 0)]
    assert "its body is empty" in table[0]["reason"]
    assert not list((folder / "_staging").iterdir())
    assert seen(options) == [b"fine", b"good"]


def test_the_log_is_looked_for_where_it_was(options: dict[str, str]) -> None:
    commit(options, [write(options, task(), ONE)], 0)
    skipped = write(options, task(), ONE)
    (path,) = Path(options["checkpointLocation"]).glob(f"rocketmq-commits/q/*{SUFFIX}")
    path.unlink()
    with pytest.raises(ClusterUnavailable, match="restore the folder"):
        commit(options, [skipped], 0)
