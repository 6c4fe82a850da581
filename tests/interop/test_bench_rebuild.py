"""The comparison with Java's rebuild judges rightly: what is expected, served, equal, and whose ratio it is."""

from __future__ import annotations

import shutil
import signal
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from bench.rebuild import bytes_needed, check_disk, kept_store, ratio, table
from bench.rebuilds.derived import differences
from bench.rebuilds.rebuild_runs import BROKER, JAVA, SPARK, Run, Task, our_broker, rebuild_by_broker
from bench.rebuilds.served import expect, what_is_behind, what_is_missing
from bench.servers.servers import BolideBroker
from bench.servers.stopping import FAILED, Failed, last_line, measured

from bolide.spark.bench.store import QUEUES, SEGMENT_SIZE, TOPIC, make_store
from proof.reader.records import leading

MESSAGES, FEW = 20_003, 2003
SMALL = 1 << 22


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With segments as a broker makes them by default."""
    return kept_store(tmp_path_factory.mktemp("kept"), FEW, 128)


def test_expectation_matches_the_log(tmp_path: Path) -> None:
    make_store(tmp_path, MESSAGES, 128, SMALL)
    log = tmp_path / "commitlog"
    found = expect(log, TOPIC, QUEUES, MESSAGES, SMALL)
    assert sum(found.ends.values()) == MESSAGES and set(found.ends.values()) == {2500, 2501}
    newest = max(log.iterdir())
    data = newest.read_bytes()[found.last_offset - int(newest.name) :]
    (last,), end, _ = leading(data, found.last_offset)
    assert last.properties["UNIQ_KEY"] == found.last_key
    assert not any(data[end:])
    for wrong in (MESSAGES + 1, MESSAGES - 1, MESSAGES - QUEUES, 12):
        with pytest.raises(Failed, match="does not contain"):
            expect(log, TOPIC, QUEUES, wrong, SMALL)


def test_a_rebuild_ends_when_all_is_served(store: Path, tmp_path: Path) -> None:
    expected = expect(store / "commitlog", TOPIC, QUEUES, FEW, SEGMENT_SIZE)
    task = Task(store, expected, FEW, "local[1]")
    before = task.stamps()
    home = tmp_path / "home"
    task.lay_out(home)
    assert len(expect(home / "store" / "commitlog", TOPIC, QUEUES, FEW, SEGMENT_SIZE).ends) == QUEUES
    run = rebuild_by_broker(task, home, 1, BROKER, partial(our_broker, home))
    assert run.seconds > 0 and task.stamps() == before
    assert len(list((home / "store" / "consumequeue" / TOPIC).iterdir())) == QUEUES
    broker = BolideBroker(home, "async", ready_seconds=180.0)
    try:
        assert what_is_missing(broker.port, expected) == what_is_behind(broker.port) == ""
        for wrong, says in (
            (replace(expected, ends=expected.ends | {3: 7}), "queue 3 ends at 250 of 7"),
            (replace(expected, last_key="0" * 32), "not found by its key"),
            (replace(expected, topic="Other"), "queue 0 ends at"),
        ):
            assert says in what_is_missing(broker.port, wrong)
    finally:
        broker.kill()


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two stores with the same derived files; the index file has another name."""
    one, other = tmp_path / "one", tmp_path / "other"
    for queue in ("0", "1"):
        file = one / "consumequeue" / TOPIC / queue / "00000000000000000000"
        file.parent.mkdir(parents=True)
        file.write_bytes(bytes(range(200)) * 100)
    (one / "index").mkdir()
    (one / "index" / "20261121200000000").write_bytes(b"index" * 1000)
    shutil.copytree(one, other)
    (other / "index" / "20261121200000000").rename(other / "index" / "20261121200005000")
    return one, other


def test_equal_files_do_not_differ(pair: tuple[Path, Path]) -> None:
    assert differences(*pair) == []


@pytest.mark.parametrize(
    ("name", "at", "says"),
    [
        ("consumequeue/BenchSpark/1/00000000000000000000", 12_345, "differs first at byte 12,345"),
        ("index/20261121200005000", 0, "index file 0 differs first at byte 0"),
    ],
)
def test_changed_byte_is_found(pair: tuple[Path, Path], name: str, at: int, says: str) -> None:
    data = bytearray((pair[1] / name).read_bytes())
    data[at] ^= 1
    (pair[1] / name).write_bytes(data)
    assert [says in sentence for sentence in differences(*pair)] == [True]


def test_file_in_one_store_only_is_found(pair: tuple[Path, Path]) -> None:
    shutil.rmtree(pair[1] / "consumequeue" / TOPIC / "0")
    shutil.rmtree(pair[0] / "index")
    queue, index = differences(*pair)
    assert f"{TOPIC}/0/00000000000000000000 is only in {pair[0]}" in queue
    assert "there are 0 index files" in index


def runs(name: str, *seconds: float) -> list[Run]:
    return [Run(name, number, taken, taken, 1.0) for number, taken in enumerate(seconds, 1)]


def test_the_ratio_is_the_median_of_those_of_the_rounds() -> None:
    all_of_them = runs(JAVA, 90.0, 60.0, 61.0) + runs(SPARK, 15.0, 30.0, 20.0)
    assert ratio(all_of_them) == pytest.approx(61 / 20)
    head, java, spark = table(all_of_them, 1000).splitlines()
    assert "61.0 s" in java and "90.0, 60.0, 61.0" in java and "20.0 s" in spark and len(head) == len(java)


def test_a_disk_without_room_is_told_before_anything_is_made(tmp_path: Path) -> None:
    assert bytes_needed(10_000_000, 128, True) < bytes_needed(10_000_000, 128, False) < 20e9
    with pytest.raises(Failed, match="GB free and this may take .* GB: make room"):
        check_disk(tmp_path, bytes_needed(10**12, 128, False))


def test_failure_is_one_sentence_and_cleans_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended: list[str] = []

    def fail(work: Path, ends: ExitStack) -> None:
        (work / "store").mkdir()
        ends.callback(ended.append, "broker")
        raise Failed("there is no room: make some")

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(SystemExit) as stopped:
            measured("rebuild", tmp_path, fail)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert stopped.value.code == FAILED
    assert capsys.readouterr().err == "rebuild: there is no room: make some\n"
    assert ended == ["broker"] and list(tmp_path.iterdir()) == []


def test_the_last_line_says_why() -> None:
    assert last_line("Traceback\n  at x\nValueError: why\n\n") == "ValueError: why"
    assert last_line("\n") == "it said nothing"
