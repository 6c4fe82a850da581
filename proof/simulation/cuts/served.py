"""What a running broker serves, compared with its log."""

from __future__ import annotations

import struct

from bolide.remoting import codes
from bolide.remoting.command import Command
from proof.simulation.cuts import raw
from proof.simulation.cuts.check import Checks
from proof.simulation.cuts.history import Clients


def not_served(clients: Clients, checks: Checks, topic: str, queue_id: int) -> list[str]:
    """Pull a queue from its start; what differs from the records that the log has of it."""
    store = checks.store()
    wanted = [
        r for r in store.records if (r.topic, r.queue_id) == (topic, queue_id) and r.in_queue and not store.gone(r)
    ]
    got: list[raw.Record] = []
    answers: list[Command] = []
    offset, code = 0, codes.SUCCESS
    while code in (codes.SUCCESS, codes.PULL_RETRY_IMMEDIATELY, codes.PULL_OFFSET_MOVED):
        answers.clear()
        clients.pull(topic, queue_id, offset, answers.append)
        clients.machine.settle()
        if not answers:
            return [f"a pull of {topic} {queue_id} from {offset} is not answered"]
        code = answers[0].code
        got += _records(answers[0].body)
        next_offset = int(answers[0].ext().get("nextBeginOffset", offset))
        if next_offset <= offset:
            break
        offset = next_offset
    if code == codes.TOPIC_NOT_EXIST:
        return []  # what the table says of it is checked there
    wanted = [r for r in wanted if not checks.may_be_gone(r) or (got and r.at >= got[0].at)]
    if [r.at for r in got] != [r.at for r in wanted]:
        return [f"{topic} {queue_id} serves {[r.at for r in got]}, the log has {[r.at for r in wanted]} of it"]
    return [
        f"{topic} {queue_id} serves other bytes than the log has" for a, b in zip(got, wanted, strict=True) if a != b
    ]


def _records(body: bytes) -> list[raw.Record]:
    found: list[raw.Record] = []
    place = 0
    while place + 36 <= len(body):
        record = raw.record_at(body, place, struct.unpack_from(">q", body, place + 28)[0])
        if record is None:
            break
        found.append(record)
        place += record.size
    return found
