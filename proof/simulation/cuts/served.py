"""What a running broker serves, compared with its log."""

from __future__ import annotations

from bolide.remoting import codes
from bolide.remoting.command import Command
from proof.reader.errors import Unreadable
from proof.reader.records import Record, read_records
from proof.simulation.cuts.check import Checks
from proof.simulation.cuts.history import Clients


def not_served(clients: Clients, checks: Checks, topic: str, queue_id: int) -> list[str]:
    """Pull a queue from its start; what differs from the records that the log has of it."""
    store = checks.store()
    wanted = [r for r in store.records if (r.topic, r.queue_id) == (topic, queue_id) and r.queued and not store.gone(r)]
    got: list[Record] = []
    answers: list[Command] = []
    offset, code = 0, codes.SUCCESS
    while code in (codes.SUCCESS, codes.PULL_RETRY_IMMEDIATELY, codes.PULL_OFFSET_MOVED):
        answers.clear()
        clients.pull(topic, queue_id, offset, answers.append)
        clients.machine.settle()
        if not answers:
            return [f"a pull of {topic} {queue_id} from {offset} is not answered"]
        code = answers[0].code
        try:
            got += read_records(answers[0].body)
        except Unreadable as error:
            return [f"{topic} {queue_id} serves bytes from {offset} on with {error}"]
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
