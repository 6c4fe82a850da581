"""Consumers: each group sees each message, what it sends back is redelivered or dead, and offsets do not lead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from proof.ledger.copies import Copies
from proof.ledger.facts import DEAD_PREFIX, NEVER, RETRY_PREFIX, Finding, Group, Outcome, Place, Queue, Seen, Served


def judge(copies: Copies) -> Iterator[Finding]:
    """All groups."""
    for seen in copies.ledger.seen:
        if seen.number >= 0 and copies.ledger.sends[seen.number].outcome is Outcome.REFUSED:
            send = copies.ledger.sends[seen.number]
            yield Finding("refused is nowhere", f"{seen.group} got {send}, though it was refused: {send.why}")
    yield from (Finding("consumed at least once", finding.detail) for finding in awaited(copies))
    by_group = _seen_by_group(copies)
    for group in copies.ledger.groups.values():
        yield from _unwanted(copies, group, by_group[group.name])
        yield from _dead_letters(copies, group, by_group[group.name])
        if group.orderly:
            yield from _orderly(copies, group, by_group[group.name])
    yield from _offsets(copies, by_group)


def awaited(copies: Copies) -> Iterator[Finding]:
    """What a group wants, has not accepted yet, and was not carried past."""
    by_group = _seen_by_group(copies)
    for group in copies.ledger.groups.values():
        dead = {served.number for served in _dead(copies, group)}
        passed = _passed(copies, group)
        who = sorted(group.members) if group.broadcast else [""]
        for member in who:
            through = {seen.number for seen in by_group[group.name] if seen.accepted and member in ("", seen.member)}
            for served in _wanted(copies, group):
                if served.number not in through and served.number not in dead and served.place not in passed:
                    by = f" in {member}" if member else ""
                    yield Finding("awaited", f"{group.name}{by} has not accepted #{served.number} at {served.place}")


def passed_over(copies: Copies) -> set[tuple[str, int]]:
    """What a group did not accept and need not, by its name and the message's number."""
    found = set()
    by_group = _seen_by_group(copies)
    for group in copies.ledger.groups.values():
        accepted = {seen.number for seen in by_group[group.name] if seen.accepted}
        passed = _passed(copies, group)
        for served in _wanted(copies, group):
            if served.number is not None and served.number not in accepted and served.place in passed:
                found.add((group.name, served.number))
    return found


def _passed(copies: Copies, group: Group) -> set[Place]:
    """Where messages are that the group was carried past, or past the copy that a listener of it had refused."""
    of_topic = copies.view.of_topic(RETRY_PREFIX + group.name)
    retried = {one.number for _, view in of_topic for one in view.messages if _carried_past(copies, group, one)}
    return {
        served.place
        for served in _wanted(copies, group)
        if served.number in retried or _carried_past(copies, group, served)
    }


def _carried_past(copies: Copies, group: Group, served: Served) -> bool:
    """Whether the group's offset is beyond the place, and it got another message there: its offset came from another
    log. What a filter left out nobody saw, and what a broadcasting group has read only its members know.
    """
    queue, offset = served.place
    if not _moved(copies, queue):
        return False
    if group.broadcast:
        return True
    if offset >= copies.view.offsets.get((group.name, queue), 0):
        return False
    return not group.wants_all or bool(copies.given_at[group.name, served.place] - {served.number})


def _seen_by_group(copies: Copies) -> dict[str, list[Seen]]:
    found: dict[str, list[Seen]] = defaultdict(list)
    for seen in copies.ledger.seen:
        found[seen.group].append(seen)
    return found


def _wanted(copies: Copies, group: Group) -> Iterator[Served]:
    """The messages in the queues that the group has to see."""
    for topic in group.topics:
        for queue, view in copies.view.of_topic(topic):
            skipped = group.skipped.get(queue, 0)
            for served in view.messages:
                known = served.number is not None and served.number < len(copies.ledger.sends)
                if known and served.place.offset >= skipped and group.wants(served.content):
                    yield served


def _dead(copies: Copies, group: Group) -> Iterator[Served]:
    for _, view in copies.view.of_topic(DEAD_PREFIX + group.name):
        yield from view.messages


def _unwanted(copies: Copies, group: Group, seen_by: list[Seen]) -> Iterator[Finding]:
    for seen in seen_by:
        if seen.number < 0:
            continue
        send = copies.ledger.sends[seen.number]
        if send.content.topic not in group.topics or not group.wants(send.content):
            yield Finding("filters hold", f"{group.name} got {send}, which it did not ask for")


def _dead_letters(copies: Copies, group: Group, seen_by: list[Seen]) -> Iterator[Finding]:
    """What is a dead letter was sent back as often as the group allows; a broadcasting group has none."""
    failures: dict[int, int] = defaultdict(int)
    for seen in seen_by:
        # A listener that was stopped in the middle says nothing, and a client may send its message back.
        failures[seen.number] += seen.accepted is not True
    for served in _dead(copies, group):
        number = served.number
        if number is not None and failures[number] <= group.most_retries:
            tried = f"#{number} was refused {failures[number]} times by {group.name}, which allows {group.most_retries}"
            yield Finding("dead letters are tried first", f"{tried} retries, and is at {served.place}")


def _orderly(copies: Copies, group: Group, seen_by: list[Seen]) -> Iterator[Finding]:
    """An orderly group gets a message only after all before it in the queue were accepted."""
    accepted: dict[Queue, set[int]] = defaultdict(set)
    through: dict[Queue, int] = {}
    """By queue: all before this offset was accepted, or is nothing that the group wants."""
    moved: dict[Queue, bool] = {}
    for seen in seen_by:
        queue, offset = seen.place
        if queue.topic not in group.topics:
            continue
        if queue not in through:
            first = copies.view.queues[queue].first if queue in copies.view.queues else 0
            through[queue], moved[queue] = max(group.skipped.get(queue, 0), first), _moved(copies, queue)
        if not moved[queue]:
            before = through[queue]
            while before < offset:
                served = copies.at.get(seen.place._replace(offset=before))
                if served is not None and before not in accepted[queue] and group.wants(served.content):
                    yield Finding("in order", f"{group.name} got {seen.place} before it accepted {before}")
                    return
                before += 1
            through[queue] = before
        if seen.accepted:
            accepted[queue].add(offset)


def _moved(copies: Copies, queue: Queue) -> bool:
    """Whether one offset of the queue may have held several messages: a deletion, or a tail that was lost."""
    if copies.ledger.deletions(queue.broker, queue.topic):
        return True
    ahead = any(crash.ahead and crash.broker == queue.broker for crash in copies.ledger.crashes)
    return ahead or bool(copies.cut_short(queue.broker))


def _offsets(copies: Copies, by_group: dict[str, list[Seen]]) -> Iterator[Finding]:
    """A group's offset is never beyond what its listeners got."""
    read = [(one.group, one.queue, one.offset, one.step) for one in copies.ledger.committed]
    read += [(group, queue, offset, NEVER) for (group, queue), offset in sorted(copies.view.offsets.items())]
    for name, queue, offset, step in read:
        group, view = copies.ledger.groups.get(name), copies.view.queues.get(queue)
        if group is None or group.broadcast or view is None or queue.topic not in group.topics:
            continue
        if step == NEVER and offset > view.end:
            yield Finding("offsets do not lead", f"{name} has committed {offset} of {queue}, which ends at {view.end}")
        if _moved(copies, queue):
            continue
        got = {seen.place.offset for seen in by_group[name] if seen.place.queue == queue and seen.step < step}
        for served in view.messages:
            at = served.place.offset
            if group.skipped.get(queue, 0) <= at < offset and at not in got and group.wants(served.content):
                yield Finding("offsets do not lead", f"{name} has committed {offset} of {queue} and never got {at}")
                break
