"""A store folder moves: written by our broker, opened and continued by Java 5.5.0, and opened by ours again."""

from pathlib import Path

import pytest

from proof.interop.java_artefacts import BROKER_VERSION, OLD_BROKER_VERSION
from proof.interop.java_processes import JavaBroker
from proof.interop.matrix import STORE_BACK, STORE_OUT, marked
from proof.kit.our_processes import OurBroker
from proof.kit.small import ROLLING, by_key
from proof.kit.waiting import wait_until
from proof.kit.wire import (
    PULL_MESSAGE,
    QUERY_MESSAGE,
    SEND_MESSAGE_V2,
    SUCCESS,
    VIEW_MESSAGE_BY_ID,
    Wire,
    pull_ext,
    send_ext,
)
from proof.reader.records import Record, read_records

pytestmark = pytest.mark.java

TOPIC = "moving"
QUEUES = 4
COUNT = 200
SETTINGS = {
    **by_key(ROLLING),
    "transactionCheckInterval": "3600000",
    "timerWheelEnable": "false",
}


def send_some(port: int, first: int) -> dict[str, tuple[int, int, int]]:
    """Send COUNT messages; by key: queue id, queue offset, physical offset as the answers tell."""
    told: dict[str, tuple[int, int, int]] = {}
    with Wire(port) as wire:
        for number in range(first, first + COUNT):
            key = f"key{number}"
            properties = f"KEYS\x01{key}\x02UNIQ_KEY\x01{number:032X}\x02TAGS\x01Tag{number % 3}\x02"
            ext = send_ext(TOPIC, e=str(number % QUEUES), i=properties)
            answer = wire.ask(SEND_MESSAGE_V2, ext, key.encode() * (1 + number % 90))
            assert answer.code == SUCCESS, answer
            at = int(answer.ext["msgId"][16:], 16)
            told[key] = (int(answer.ext["queueId"]), int(answer.ext["queueOffset"]), at)
    return told


def check_served(port: int, told: dict[str, tuple[int, int, int]]) -> None:
    """All of it, and nothing else, comes by pull; each by key and by id."""
    pulled: dict[str, Record] = {}
    raw: dict[str, bytes] = {}
    offsets = dict.fromkeys(range(QUEUES), 0)
    with Wire(port) as wire:

        def pull() -> bool:
            """Java's queues know of a message some time after its answer."""
            for queue_id in offsets:
                while (answer := wire.ask(PULL_MESSAGE, pull_ext(TOPIC, queue_id, offsets[queue_id]))).code == SUCCESS:
                    for message in read_records(answer.body):
                        key = message.properties["KEYS"]
                        assert key not in pulled
                        pulled[key] = message
                        raw[key], answer.body = answer.body[: message.size], answer.body[message.size :]
                    offsets[queue_id] = int(answer.ext["nextBeginOffset"])
            return len(pulled) >= len(told)

        wait_until(pull, "everything is pulled")
        assert {k: (m.queue_id, m.queue_offset, m.at) for k, m in pulled.items()} == told
        for key, (_, _, at) in told.items():
            assert pulled[key].body == key.encode() * (1 + int(key[3:]) % 90)
            by_id = wire.ask(VIEW_MESSAGE_BY_ID, {"offset": str(at)})
            assert by_id.body == raw[key]
            ext = {
                "topic": TOPIC,
                "key": key,
                "maxNum": "32",
                "beginTimestamp": "0",
                "endTimestamp": str((1 << 63) - 1),
            }
            by_key = wire.ask(QUERY_MESSAGE, ext)
            assert by_key.body == raw[key]


@marked(STORE_OUT, "plain messages", "index by key", "offset id", "tags", "after {end}")
@marked(STORE_BACK, "plain messages", "index by key", "offset id", "tags", "after {end}")
@pytest.mark.parametrize("version", [BROKER_VERSION, OLD_BROKER_VERSION])
@pytest.mark.parametrize("end", ["clean stop", "SIGKILL"])
def test_there_and_back(tmp_path: Path, version: str, end: str) -> None:
    ours_only = {"storeVersion": version[:3], "flushDiskType": "ASYNC_FLUSH"}

    ours = OurBroker(tmp_path, "", SETTINGS | ours_only)
    told = send_some(ours.port, 0)
    leave(ours, end)

    java = JavaBroker(tmp_path, "", SETTINGS, version=version)
    check_served(java.port, told)
    told |= send_some(java.port, COUNT)
    check_served(java.port, told)
    leave(java, end)

    ours = OurBroker(tmp_path, "", SETTINGS | ours_only)
    check_served(ours.port, told)
    told |= send_some(ours.port, 2 * COUNT)
    check_served(ours.port, told)
    leave(ours, "clean stop")


def leave(broker: OurBroker | JavaBroker, end: str) -> None:
    """Stop a broker, or kill it: what was acknowledged is in the page cache and must survive that."""
    if end == "SIGKILL":
        broker.kill()
    else:
        broker.stop()
