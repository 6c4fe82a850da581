"""When a broker has rebuilt what follows from its log: every message can be pulled, and found by its key.

It is asked over its port, by requests that both brokers know, so that neither is believed for what it logs.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from bench.servers.stopping import Failed

from proof.kit.wire import PULL_MESSAGE, QUERY_MESSAGE, SUCCESS, Wire, pull_ext, query_ext
from proof.reader.errors import Unreadable
from proof.reader.records import read_records

RUNTIME_INFO = 28
GET_MAX_OFFSET = 30
_ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Expected:
    """What a log holds: the end of each queue, and its last message."""

    topic: str
    ends: dict[int, int]
    last_key: str
    last_offset: int
    """Physical offset of the last message."""


def expect(log: Path, topic: str, queues: int, messages: int, segment_size: int) -> Expected:
    """What is in a log of records of one size that went round the queues. Raises Failed where it says otherwise."""
    newest = max(log.iterdir())
    with newest.open("rb") as file:
        size = int.from_bytes(file.read(4), "big")
        before = int(newest.name) // segment_size * ((segment_size - 8) // size)
        at = (messages - before - 1) * size
        file.seek(max(at, 0))
        data, behind = file.read(size), file.read(4)
    ends = {number: messages // queues + (number < messages % queues) for number in range(queues)}
    number = (messages - 1) % queues
    try:
        last = read_records(data)[0]
    except (Unreadable, IndexError):
        last = None
    if at < 0 or any(behind) or last is None or (last.queue_id, last.queue_offset) != (number, ends[number] - 1):
        raise Failed(f"{log} does not contain {messages:,} messages: delete the folder, it is created again")
    return Expected(topic, ends, last.properties["UNIQ_KEY"], last.at)


def what_is_missing(port: int, expected: Expected) -> str:
    """The first thing that a broker does not serve yet; nothing once it serves all.

    Logs are dispatched in order, so the last message, pulled and found by its key, stands for all before it.
    """
    try:
        with Wire(port, _ANSWER_SECONDS) as wire:
            return _queues(wire, expected) or _key(wire, expected)
    except (AssertionError, OSError, Unreadable) as error:
        return f"it cannot be asked: {error}"


def what_is_behind(port: int) -> str:
    """What a broker itself says of its dispatch; nothing once it has nothing left to do.

    Not a part of `what_is_missing`: Java's cannot tell before it has counted for a second, and serves meanwhile.
    """
    try:
        with Wire(port, _ANSWER_SECONDS) as wire:
            answer = wire.ask(RUNTIME_INFO)
    except (AssertionError, OSError) as error:
        return f"it cannot be asked: {error}"
    if answer.code != SUCCESS:
        return f"it does not tell (code {answer.code}, {answer.remark})"
    behind = int(json.loads(answer.body)["table"]["dispatchBehindBytes"])
    return f"dispatch is {behind:,} bytes behind" if behind > 0 else ""


def _queues(wire: Wire, expected: Expected) -> str:
    for queue_id, end in expected.ends.items():
        answer = wire.ask(GET_MAX_OFFSET, {"topic": expected.topic, "queueId": str(queue_id)})
        found = int(answer.ext.get("offset", -1))
        if answer.code != SUCCESS or found != end:
            return f"queue {queue_id} ends at {found:,} of {end:,}"
        pulled = wire.ask(PULL_MESSAGE, pull_ext(expected.topic, queue_id, end - 1))
        if pulled.code != SUCCESS or [one.queue_offset for one in read_records(pulled.body)] != [end - 1]:
            return f"the last message of queue {queue_id} is not pulled (code {pulled.code})"
    return ""


def _key(wire: Wire, expected: Expected) -> str:
    answer = wire.ask(QUERY_MESSAGE, query_ext(expected.topic, expected.last_key))
    if answer.code == SUCCESS and expected.last_offset in [one.at for one in read_records(answer.body)]:
        return ""
    return f"the last message is not found by its key (code {answer.code})"
