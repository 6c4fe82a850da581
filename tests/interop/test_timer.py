"""Messages delayed to any time: Java's client sends and recalls them; a store with pending ones moves both ways."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.interop.java_artefacts import BROKER_VERSION
from tests.interop.java_processes import DriverError, JavaBroker, JavaClient, wait_registered
from tests.interop.matrix import STORE_BACK, STORE_OUT, TO_OURS
from tests.interop.our_processes import OurBroker, OurNameServer
from tests.interop.processes import until
from tests.interop.records import Stored, stored
from tests.interop.wire import PULL_MESSAGE, SEND_MESSAGE_V2, SUCCESS, Wire, pull_ext, send_ext

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("java-brokers")]

FEATURE = "timer messages"
TOPIC = "timed"
RECALL_MESSAGE = 370
ROUND_MS = 16_000
SETTINGS = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeTimerLog": "520",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
    "transactionCheckInterval": "3600000",
    "timerRollWindowSlot": str(ROUND_MS // 1000),
    "recallMessageEnable": "true",
}
NEAR_MS = 3_000
FAR_MS = (15_000, 20_500, 26_000)
"""The first is within the window, the others roll once on the way."""
PER_TIME = 6


def moved_by(first: str, direction: str) -> Any:
    """Whose broker writes the store, as a cell of the matrix."""
    mark = pytest.mark.matrix(feature=FEATURE, version=BROKER_VERSION, direction=direction)
    return pytest.param(first, marks=mark)


def now_ms() -> int:
    return int(time.time() * 1000)


def send(wire: Wire, key: str, deliver_at: int) -> str:
    """Send one message to queue 1; its recall handle."""
    properties = f"UNIQ_KEY\x01{key}\x02TIMER_DELIVER_MS\x01{deliver_at}\x02"
    answer = wire.ask(SEND_MESSAGE_V2, send_ext(TOPIC, e="1", i=properties), key.encode())
    assert answer.code == SUCCESS, answer
    return answer.ext["recallHandle"]


def delivered(port: int) -> list[Stored]:
    """Everything in the queue, in its order."""
    found: list[Stored] = []
    with Wire(port) as wire:
        while (answer := wire.ask(PULL_MESSAGE, pull_ext(TOPIC, 1, len(found)))).code == SUCCESS:
            found += stored(answer.body)
    return found


def came(port: int) -> set[str]:
    return {message.body.decode() for message in delivered(port)}


def store_time(message: Stored) -> int:
    return int.from_bytes(message.raw[56:64], "big")


def noted(home: Path) -> tuple[int, int]:
    """The checkpoint of the store: slots before this time are over, messages of the queue before this one were read."""
    checkpoint = home / "store" / "config" / "timercheck"
    found = checkpoint.read_bytes() if checkpoint.exists() else bytes(24)
    return int.from_bytes(found[:8], "big"), int.from_bytes(found[16:24], "big")


@pytest.fixture(scope="module")
def moves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, bool], Future[None]]]:
    """All four moves at once: what they do most is wait."""
    cases = [(first, killed) for first in ("ours", "java") for killed in (False, True)]
    with ThreadPoolExecutor(len(cases)) as pool:
        yield {case: pool.submit(move, tmp_path_factory.mktemp("move"), *case) for case in cases}


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("first", [moved_by("ours", STORE_OUT), moved_by("java", STORE_BACK)])
def test_pending_messages_move_with_their_store(
    moves: dict[tuple[str, bool], Future[None]], first: str, killed: bool
) -> None:
    moves[first, killed].result()


def move(home: Path, first: str, killed: bool) -> None:
    """Leave messages waiting with one broker, and see what the other makes of them."""
    with ExitStack() as ends:
        due, recalled = leave_waiting(home, first, killed, ends)
        broker = broker_of("java" if first == "ours" else "ours", home, ends)
        begin = min(due.values()) - NEAR_MS
        expected = due.keys() - recalled
        until(lambda: came(broker.port) >= expected, 180, "the others are delivered")
        until(lambda: now_ms() > begin + max(FAR_MS) + 2_000, 180, "those recalled would have come")
        messages = delivered(broker.port)
        broker.stop()
    assert Counter(m.body.decode() for m in messages) == Counter(expected)
    for message in messages:
        check(message, due[message.body.decode()], begin)


def leave_waiting(home: Path, first: str, killed: bool, ends: ExitStack) -> tuple[dict[str, int], set[str]]:
    """When each message is due that a broker had, and which of them it gave back; some have come."""
    due: dict[str, int] = {}
    broker = broker_of(first, home, ends)
    with Wire(broker.port) as wire:
        # Java's first send takes seconds on a busy machine: longer than the nearest delay.
        assert wire.ask(SEND_MESSAGE_V2, send_ext(TOPIC), b"first").code == SUCCESS
        begin = now_ms()
        for ahead in (NEAR_MS, *FAR_MS):
            for number in range(PER_TIME):
                due[f"{ahead}-{number}"] = begin + ahead
        handles = {key: send(wire, key, at) for key, at in due.items()}
        near = {key for key in due if key.startswith(f"{NEAR_MS}-")}
        recalled = {f"{FAR_MS[0]}-{number}" for number in (1, 4)}
        for key in recalled:
            ext = {"topic": TOPIC, "recallHandle": handles[key], "producerGroup": "wire_producer"}
            answer = wire.ask(RECALL_MESSAGE, ext)
            assert (answer.code, answer.ext["msgId"]) == (SUCCESS, key), answer
    until(lambda: noted(home)[1] == len(due) + len(recalled), 120, "the wheel holds every message")
    placed = now_ms()
    until(lambda: came(broker.port) >= near, 120, "the first messages are delivered")
    # What rolls goes half a round on when hardly more is left, else a round; from when the broker read it.
    rolls = [(begin + ahead - 1_000, placed + ahead) for ahead in (ROUND_MS // 2, ROUND_MS)]
    if killed:
        kill_between(broker, home, [*rolls, *((at, at) for at in due.values())])
    else:
        broker.stop()
    return due, recalled


def kill_between(broker: OurBroker | JavaBroker, home: Path, moments: list[tuple[int, int]]) -> None:
    """Kill a broker when its checkpoint covers all it did: what it does after one may come twice, at these moments."""

    def covered() -> bool:
        broker.pause()
        now, (over, _) = now_ms(), noted(home)
        if all(now < first or last < over for first, last in moments):
            return True
        broker.resume()
        return False

    until(covered, 180, "the checkpoint covers what is over")
    broker.kill()


def check(message: Stored, due: int, begin: int) -> None:
    """It came in time, with what a timer leaves among its properties."""
    assert due <= store_time(message)
    assert set(message.properties) - {"MSG_REGION", "TRACE_ON", "CLUSTER", "TIMER_ROLL_TIMES"} == {
        "UNIQ_KEY",
        "TIMER_DELIVER_MS",
        "TIMER_OUT_MS",
        "REAL_TOPIC",
        "REAL_QID",
        "TIMER_ENQUEUE_MS",
        "TIMER_DEQUEUE_MS",
    }
    assert int(message.properties["TIMER_OUT_MS"]) == due // 1000 * 1000 - 1000 * (due % 1000 == 0)
    assert (message.properties["REAL_TOPIC"], message.properties["REAL_QID"]) == (TOPIC, "1")
    assert message.properties.get("TIMER_ROLL_TIMES", "0") == ("1" if due - begin > ROUND_MS else "0")


@pytest.mark.parametrize(
    "binary",
    [
        pytest.param(False, id="json", marks=pytest.mark.matrix(feature=FEATURE, version="5.5.0", direction=TO_OURS)),
        pytest.param(
            True, id="binary", marks=pytest.mark.matrix(feature=FEATURE, version="5.5.0 binary", direction=TO_OURS)
        ),
    ],
)
def test_java_sends_for_later_and_takes_back(tmp_path: Path, binary: bool) -> None:
    namesrv = OurNameServer(tmp_path / "namesrv")
    broker = OurBroker(tmp_path, namesrv.address, {"recallMessageEnable": "true", "flushDiskType": "ASYNC_FLUSH"})
    wait_registered(namesrv.address)
    client = JavaClient(tmp_path / "client", namesrv.address, BROKER_VERSION, binary_header=binary)
    try:
        # A client's first send takes seconds on a busy machine: longer than those behind it are to wait.
        client.call("send", topic="first", mode="sync", count=1)
        sent = client.call("send", topic=TOPIC, mode="sync", count=6, timer=4_500)
        sent += client.call("send", topic=TOPIC, mode="async", count=6, timer=4_500)
        taken = [sent[1], sent[8]]
        for result in taken:
            assert client.call("recall", topic=TOPIC, handle=result["recallHandle"]) == result["msgId"]
        with pytest.raises(DriverError, match="recall handle is invalid"):
            client.call("recall", topic=TOPIC, handle="nonsense")
        client.call("consume", group=TOPIC, topic=TOPIC)
        got = client.call("await", group=TOPIC, count=10)
        last = now_ms() + 2_000
        until(lambda: now_ms() > last, 60, "those taken back would have come")
        got = client.call("await", group=TOPIC, count=10)
        client.call("stop", group=TOPIC)
        expected = {r["msgId"]: r for r in sent if r not in taken}
        assert Counter(m["msgId"] for m in got) == Counter(list(expected))
        for message in got:
            assert message["storeTimestamp"] - message["bornTimestamp"] >= 4_500
            assert message["queueId"] == expected[message["msgId"]]["queueId"]
            assert message["topic"] == TOPIC
        with pytest.raises(DriverError, match="recall failed, timestamp invalid"):
            client.call("recall", topic=TOPIC, handle=sent[0]["recallHandle"])
    finally:
        client.close()
        assert broker.stop() == 0, broker.output()
        assert namesrv.stop() == 0, namesrv.output()


def broker_of(whose: str, home: Path, ends: ExitStack) -> OurBroker | JavaBroker:
    """A broker on the store in `home`, that does not outlive `ends`."""
    broker: OurBroker | JavaBroker
    if whose == "java":
        broker = JavaBroker(home, "", SETTINGS | {"timerFlushIntervalMs": "1000"})  # the checkpoint is waited for
    else:
        broker = OurBroker(home, "", SETTINGS | {"flushDiskType": "ASYNC_FLUSH"})
    ends.callback(broker.kill)
    return broker
