"""Messages delayed to any time: Java's client sends and recalls them; a store with pending ones moves both ways."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from proof.interop.java_artefacts import BROKER_VERSION
from proof.interop.java_processes import DriverError, JavaBroker, JavaClient, wait_registered
from proof.interop.matrix import STORE_BACK, STORE_OUT, TO_OURS
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.small import SMALL, by_key
from proof.kit.waiting import wait_until
from proof.kit.wire import PULL_MESSAGE, SEND_MESSAGE_V2, SUCCESS, Wire, pull_ext, send_ext
from proof.reader.records import Record, read_records

pytestmark = pytest.mark.java

FEATURE = "timer messages"
TOPIC = "timed"
RECALL_MESSAGE = 370
ROUND_MS = 16_000
SETTINGS = {
    **by_key(SMALL),
    "mappedFileSizeTimerLog": "520",
    "transactionCheckInterval": "3600000",
    "timerRollWindowSlot": str(ROUND_MS // 1000),
    "recallMessageEnable": "true",
}
NEAR_MS = 3_000
FAR_MS = (14_000, 20_500, 26_000)
"""The first is within the window, also for a wheel that is a second late; the others roll once on the way."""
PER_TIME = 6
SOON_MS = 4_500
TOO_LATE = "recall failed, timestamp invalid"
Sent = list[dict[str, Any]]


class Moment(NamedTuple):
    """Between which times a broker delivers a message, or rolls it, that is, stores it again."""

    first: int
    last: int
    rolls: bool


class Left(NamedTuple):
    """What one broker leaves to the other."""

    due: dict[str, int]
    """When each message is to come."""
    recalled: set[str]
    begin: int
    """Before the first of those far away was sent."""
    placed: int
    """When the wheel held every one."""
    cut: set[str]
    """Those that the broker was busy with when it stopped: what it did is not in its checkpoint, and is done again."""


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


def delivered(port: int) -> list[Record]:
    """Everything in the queue, in its order."""
    found: list[Record] = []
    with Wire(port) as wire:
        while (answer := wire.ask(PULL_MESSAGE, pull_ext(TOPIC, 1, len(found)))).code == SUCCESS:
            found += read_records(answer.body)
    return found


def came(port: int) -> set[str]:
    return {message.body.decode() for message in delivered(port)}


def checkpoint_of(home: Path) -> Path:
    return home / "store" / "config" / "timercheck"


def noted(home: Path) -> tuple[int, int]:
    """The checkpoint of the store: slots before this time are over, messages of the queue before this one were read."""
    checkpoint = checkpoint_of(home)
    found = checkpoint.read_bytes() if checkpoint.exists() else bytes(24)
    return int.from_bytes(found[:8], "big"), int.from_bytes(found[16:24], "big")


def queued(home: Path) -> int:
    """How many messages the queue of the timer has had: its units of 20 bytes up to one with no size in it."""
    units = (home / "store" / "consumequeue" / "rmq_sys_wheel_timer" / "0" / f"{0:020}").read_bytes()
    return next((at // 20 for at in range(0, len(units), 20) if not any(units[at + 8 : at + 12])), len(units) // 20)


@pytest.fixture(scope="module")
def moves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, bool], Future[None]]]:
    """All four moves at once: what they do most is wait."""
    cases = [(first, killed) for first in ("ours", "java") for killed in (False, True)]
    with ThreadPoolExecutor(len(cases)) as pool:
        yield {case: pool.submit(move, tmp_path_factory.mktemp("move"), *case) for case in cases}


@pytest.mark.xdist_group("timer-moves")
@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("first", [moved_by("ours", STORE_OUT), moved_by("java", STORE_BACK)])
def test_pending_messages_move_with_their_store(
    moves: dict[tuple[str, bool], Future[None]], first: str, killed: bool
) -> None:
    moves[first, killed].result()


def move(home: Path, first: str, killed: bool) -> None:
    """Leave messages waiting with one broker, and see what the other makes of them."""
    with ExitStack() as ends:
        left = leave_waiting(home, first, killed, ends)
        broker = broker_of("java" if first == "ours" else "ours", home, ends)
        expected = left.due.keys() - left.recalled
        wait_until(lambda: came(broker.port) >= expected, "the others are delivered")
        wait_until(lambda: now_ms() > max(left.due.values()) + 2_000, "those recalled would have come")
        messages = delivered(broker.port)
    times = Counter(message.body.decode() for message in messages)
    assert times.keys() == expected
    assert {key for key in expected if times[key] > 1} <= left.cut, times
    assert max(times.values()) <= 2, times
    for message in messages:
        check(message, left)


def leave_waiting(home: Path, first: str, killed: bool, ends: ExitStack) -> Left:
    """Messages that a broker had, some of which have come, and some of which it gave back."""
    due: dict[str, int] = {}
    handles: dict[str, str] = {}
    broker = broker_of(first, home, ends)
    with Wire(broker.port) as wire:
        # Java's first send takes seconds on a busy machine: longer than the nearest delay.
        assert wire.ask(SEND_MESSAGE_V2, send_ext(TOPIC), b"first").code == SUCCESS
        near = [f"{NEAR_MS}-{number}" for number in range(PER_TIME)]
        for key in near:
            due[key] = now_ms() + NEAR_MS
            send(wire, key, due[key])
        begin = now_ms()
        for ahead in FAR_MS:
            for number in range(PER_TIME):
                key = f"{ahead}-{number}"
                due[key] = begin + ahead
                handles[key] = send(wire, key, due[key])
        recalled = {f"{FAR_MS[0]}-{number}" for number in (1, 4)}
        for key in recalled:
            ext = {"topic": TOPIC, "recallHandle": handles[key], "producerGroup": "wire_producer"}
            answer = wire.ask(RECALL_MESSAGE, ext)
            assert (answer.code, answer.ext["msgId"]) == (SUCCESS, key), answer
    # More than these where the first checkpoint that says so came after some had rolled.
    wait_until(lambda: noted(home)[1] >= len(due) + len(recalled), "the wheel holds every message")
    placed = now_ms()
    wait_until(lambda: came(broker.port) >= set(near), "the first messages are delivered")
    moments = {key: moments_of(at, begin, placed) for key, at in due.items()}
    if killed:
        kill_between(broker, home, moments)
        return Left(due, recalled, begin, placed, set())
    broker.stop()
    # Java closes its timer, with a last checkpoint, early in a stop that may take long. What it is in the middle of it
    # leaves undone, or done and not noted: at least once. Ours notes what it did.
    cut = unfinished(home, checkpoint_of(home).stat().st_mtime_ns // 1_000_000, moments) if first == "java" else set()
    return Left(due, recalled, begin, placed, cut)


def moments_of(due: int, begin: int, placed: int) -> list[Moment]:
    """What rolls goes half a round on when hardly more is left, else a round; from when the broker read it."""
    rolls = [Moment(begin + ahead - 1_000, placed + ahead, True) for ahead in (ROUND_MS // 2, ROUND_MS)]
    return [Moment(due, due, False), *(rolls if due - begin > ROUND_MS else [])]


def unfinished(home: Path, now: int, moments: dict[str, list[Moment]]) -> set[str]:
    """Messages a broker had begun to do something with by `now`, of which its checkpoint does not say that it is done.

    What rolled must have been read again, too: it may be in the wheel already.
    """
    over, read = noted(home)
    read_again = read >= queued(home)

    def open_at(moment: Moment) -> bool:
        return moment.first <= now and (over <= moment.last or (moment.rolls and not read_again))

    return {key for key, all_of_it in moments.items() if any(map(open_at, all_of_it))}


def kill_between(broker: OurBroker | JavaBroker, home: Path, moments: dict[str, list[Moment]]) -> None:
    """Kill a broker when its checkpoint covers all it did: what it does after one may come twice."""

    def covered() -> bool:
        broker.pause()
        if not unfinished(home, now_ms(), moments):
            return True
        broker.resume()
        return False

    wait_until(covered, "the checkpoint covers what is over")
    broker.kill()


def check(message: Record, left: Left) -> None:
    """It came in time, with what a timer leaves among its properties."""
    due = left.due[message.body.decode()]
    assert due <= message.stored_ms
    assert set(message.properties) - {"MSG_REGION", "TRACE_ON", "CLUSTER", "TIMER_ROLL_TIMES"} == {
        "UNIQ_KEY",
        "TIMER_DELIVER_MS",
        "TIMER_OUT_MS",
        "REAL_TOPIC",
        "REAL_QID",
        "TIMER_ENQUEUE_MS",
        "TIMER_DEQUEUE_MS",
    }
    out = due // 1000 * 1000 - 1000 * (due % 1000 == 0)
    assert int(message.properties["TIMER_OUT_MS"]) == out
    assert (message.properties["REAL_TOPIC"], message.properties["REAL_QID"]) == (TOPIC, "1")
    # Whether it rolls is decided when the wheel reads it: on a slow machine so late that it is within the window.
    rolls = {"1"} if out - left.placed >= ROUND_MS else {"0"} if due - left.begin <= ROUND_MS else {"0", "1"}
    assert message.properties.get("TIMER_ROLL_TIMES", "0") in rolls


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
        # A client's first send takes seconds on a busy machine: longer than the next ones are to wait.
        client.call("send", topic="first", mode="sync", count=1)
        sent, taken = [], []
        for mode in ("sync", "async"):
            some, one = send_and_take_one(client, mode)
            sent += some
            taken.append(one)
        with pytest.raises(DriverError, match="recall handle is invalid"):
            client.call("recall", topic=TOPIC, handle="nonsense")
        client.call("consume", group=TOPIC, topic=TOPIC)
        client.call("await", group=TOPIC, count=len(sent) - len(taken))
        last = now_ms() + 2_000
        wait_until(lambda: now_ms() > last, "those taken back would have come")
        got = client.call("await", group=TOPIC, count=len(sent) - len(taken))
        client.call("stop", group=TOPIC)
        expected = {r["msgId"]: r for r in sent if r not in taken}
        assert Counter(m["msgId"] for m in got) == Counter(list(expected))
        for message in got:
            assert message["storeTimestamp"] - message["bornTimestamp"] >= SOON_MS
            assert message["queueId"] == expected[message["msgId"]]["queueId"]
            assert message["topic"] == TOPIC
        with pytest.raises(DriverError, match=TOO_LATE):
            client.call("recall", topic=TOPIC, handle=sent[0]["recallHandle"])
    finally:
        client.close()
        assert broker.stop() == 0, broker.output()
        assert namesrv.stop() == 0, namesrv.output()


def send_and_take_one(client: JavaClient, mode: str) -> tuple[Sent, dict[str, Any]]:
    """What was sent, and the one of it that was taken back: of a second lot where the first was due before that."""
    sent: Sent = []
    for ahead in (SOON_MS, 4 * SOON_MS, 16 * SOON_MS):
        begin = now_ms()
        some: Sent = client.call("send", topic=TOPIC, mode=mode, count=6, timer=ahead)
        sent += some
        try:
            taken = client.call("recall", topic=TOPIC, handle=some[1]["recallHandle"])
        except DriverError as error:
            if TOO_LATE not in str(error) or now_ms() - begin < ahead:
                raise
        else:
            assert taken == some[1]["msgId"]
            return sent, some[1]
    raise AssertionError(f"nothing was taken back within {ahead} ms of its sending")


def broker_of(whose: str, home: Path, ends: ExitStack) -> OurBroker | JavaBroker:
    """A broker on the store in `home`, that does not outlive `ends`."""
    broker: OurBroker | JavaBroker
    if whose == "java":
        broker = JavaBroker(home, "", SETTINGS | {"timerFlushIntervalMs": "1000"})  # the checkpoint is waited for
    else:
        broker = OurBroker(home, "", SETTINGS | {"flushDiskType": "ASYNC_FLUSH"})
    ends.callback(broker.kill)
    return broker
