"""What is in the queues: each acknowledged message as sent, once, in order; each refused one nowhere; nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from proof.ledger.copies import Copies
from proof.ledger.facts import Finding, Kind, Outcome, Queue, QueueView, Send

ONCE = "once in the log"


def judge(copies: Copies) -> Iterator[Finding]:
    """Everything about messages that are to appear at once, and about the queues themselves."""
    for served in copies.elsewhere:
        what = served.content.body[:40]
        yield Finding("served what was not sent", f"{served.place} holds {what!r}, which nobody sent there")
    for send in copies.ledger.sends:
        yield from _content(copies, send)
        if send.kind is Kind.PLAIN:
            yield from _copies(copies, send)
    for queue, found in sorted(copies.view.queues.items()):
        yield from _unbroken(queue, found)
        if queue.topic in copies.topics:
            yield from _in_order(copies, queue, found)
    yield from _tail_only(copies)


def _content(copies: Copies, send: Send) -> Iterator[Finding]:
    found = copies.own[send.number]
    for served in found:
        differs = send.content.difference(served.content)
        if differs:
            yield Finding("served as sent", f"{send} has another {differs} at {served.place}")
    if send.outcome is Outcome.REFUSED and found:
        yield Finding("refused is nowhere", f"{send} is at {found[0].place}, though it was refused: {send.why}")
    if found and copies.deleted_for_sure(send):
        yield Finding("deleted stays deleted", f"{send} is at {found[0].place}, though its topic was deleted since")


def _copies(copies: Copies, send: Send) -> Iterator[Finding]:
    found = copies.own[send.number]
    places = ", ".join(str(served.place) for served in found)
    if len(found) > send.attempts:
        yield Finding(ONCE, f"{send} left {send.attempts} times and is at {places}")
    if send.outcome is not Outcome.DONE or send.place is None:
        return
    if send.place in (served.place for served in found) or copies.excused(send):
        return
    there = copies.at.get(send.place)
    says = f"there is #{there.number}" if there is not None else "there is nothing"
    elsewhere = f", and it is at {places}" if found else ""
    yield Finding("acknowledged is kept", f"{send} is not where it was acknowledged: {says}{elsewhere}")


def _unbroken(queue: Queue, found: QueueView) -> Iterator[Finding]:
    """Offsets without gaps, in the order of the log."""
    expected, physical = found.first, -1
    for served in found.messages:
        if served.place.offset != expected:
            yield Finding("queues have no holes", f"{queue} continues with {served.place.offset}, not {expected}")
        expected = served.place.offset + 1
        if 0 <= served.physical <= physical:
            yield Finding("queues follow the log", f"{served.place} is at {served.physical}, not beyond {physical}")
        physical = max(physical, served.physical)
    if expected != found.end:
        yield Finding("queues have no holes", f"{queue} ends at {found.end}, but its messages end at {expected}")


def awaited(copies: Copies) -> Iterator[Finding]:
    """Queues with acknowledged messages that cannot be found yet: no name server has heard of a topic just made."""
    for send in copies.ledger.sends:
        place = send.place
        if place is not None and place.queue not in copies.view.queues and not copies.deletions(send):
            yield Finding("awaited", f"{place.queue}, where {send} is, has no route")


def _in_order(copies: Copies, queue: Queue, found: QueueView) -> Iterator[Finding]:
    """What was acknowledged before another was sent is before it; so is what left first in one lane."""
    latest: Send | None = None
    lanes: dict[str, Send] = {}
    for served in found.messages:
        number = served.number
        send = copies.ledger.sends[number] if number is not None and number < len(copies.ledger.sends) else None
        if send is None or send.kind is not Kind.PLAIN or send.place != served.place:
            continue
        if latest is not None and send.ended < latest.began:
            yield Finding("in order", f"{send} was acknowledged before {latest} was sent, and is after it")
        if latest is None or send.began > latest.began:
            latest = send
        if send.lane and send.attempts == 1:
            before = lanes.get(send.lane)
            if before is not None and before.number > send.number:
                yield Finding("in order", f"{send} left before {before} on one connection, and is after it")
            lanes[send.lane] = send


def _tail_only(copies: Copies) -> Iterator[Finding]:
    """A loss of power with asynchronous flush takes the end of the log: nothing that was before what stayed."""
    for queue, found in sorted(copies.view.queues.items()):
        cuts = [crash.step for crash in copies.cut_short(queue.broker)]
        if cuts and queue.topic in copies.topics:
            yield from _tail_of(copies, queue, found, cuts)


def _tail_of(copies: Copies, queue: Queue, found: QueueView, cuts: list[int]) -> Iterator[Finding]:
    stayed = []
    for served in found.messages:
        number = served.number
        if number is not None and number < len(copies.ledger.sends):
            send = copies.ledger.sends[number]
            if send.place == served.place:
                stayed.append((send.ended, served.place.offset))
    # What every cut left of the messages answered before it: a message may have been lost in any cut after its answer.
    kept = {cut: max((offset for ended, offset in stayed if ended < cut), default=-1) for cut in cuts}
    for send in copies.ledger.sends:
        place = send.place
        if place is None or place.queue != queue or send.kind is not Kind.PLAIN:
            continue
        gone = not any(served.place == place for served in copies.own[send.number])
        after = [kept[cut] for cut in cuts if send.ended <= cut]
        if gone and after and place.offset < min(after) and not copies.deletions(send) and not copies.expired(place):
            yield Finding("only the tail is lost", f"{send} is gone, and {queue}+{min(after)} is still there")
