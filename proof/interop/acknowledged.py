"""The messages of one queue that a set of brokers acknowledged, whichever of them is the master, and what it has."""

from __future__ import annotations

from proof.kit.wire import PULL_MESSAGE, SEND_MESSAGE_V2, SUCCESS, Wire, pull_ext, send_ext
from proof.reader.records import read_records


class Acknowledged:
    """Bodies that were acknowledged, in their order; each has a number and so many zeros."""

    def __init__(self, size: int) -> None:
        self.bodies: list[bytes] = []
        self._size = size
        self._number = 0

    def send(self, port: int, count: int) -> int:
        """Send messages, one after the other; how many the broker acknowledged, which may end meanwhile."""
        done = 0
        try:
            with Wire(port) as wire:
                for _ in range(count):
                    self._number += 1
                    body = b"%d " % self._number + bytes(self._size)
                    if wire.ask(SEND_MESSAGE_V2, send_ext("T"), body).code == SUCCESS:
                        self.bodies.append(body)
                        done += 1
        except (OSError, AssertionError):
            return done
        return done


def bodies_at(port: int) -> list[bytes]:
    """All that a consumer gets of the queue."""
    found: list[bytes] = []
    with Wire(port) as wire:
        while (answer := wire.ask(PULL_MESSAGE, pull_ext("T", 0, len(found)))).code == SUCCESS:
            records = read_records(answer.body)
            assert [record.queue_offset for record in records] == list(range(len(found), len(found) + len(records)))
            found += [record.body for record in records]
    assert answer.ext.get("nextBeginOffset") == str(len(found)), f"after {len(found)} messages: {answer}"
    return found
