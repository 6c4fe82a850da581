"""Delays and timers: not before their time, not long after it, and not after they were taken back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from proof.ledger.copies import Copies
from proof.ledger.facts import Finding, Kind, Outcome, Promises, Send

RECALL_MARGIN_S: Final = 2.0
"""A message that is due just when it is taken back may still come."""


def judge(copies: Copies) -> Iterator[Finding]:
    """All delayed messages."""
    promises = copies.promises
    for send in copies.ledger.sends:
        if send.kind is not Kind.DELAYED:
            continue
        found = copies.own[send.number]
        clock_s = promises.clock_s if send.by_clock else 0.0
        from_s = send.due_at - promises.early_s - clock_s
        until = max(_latest(send, promises), promises.faults_over_at) + promises.late_s + clock_s
        for served in found:
            at = served.stored_at
            if at is not None and at < from_s:
                yield Finding("not before its time", f"{send} is at {served.place} {send.due_at - at:.3f} s early")
            if at is not None and at > until and len(found) == 1:
                late = at - _latest(send, promises)
                yield Finding("not long after its time", f"{send} is at {served.place} {late:.3f} s late")
        most = send.attempts + _repeats(copies, send)
        if len(found) > most:
            yield Finding("delivered once", f"{send} is there {len(found)} times, and {most} can be explained")
        if _taken_back(copies, send) and found:
            yield Finding("taken back", f"{send} was taken back in time, and is at {found[0].place}")
    yield from (Finding("delayed is delivered", finding.detail) for finding in awaited(copies))
    yield from _early_seen(copies)


def _repeats(copies: Copies, send: Send) -> int:
    """How many deliveries crashes explain.

    Each record that waits is stored again once: under its own topic, or once more among those that wait if its time is
    far away (timerRollWindowSlot). A crash repeats what was stored so shortly before it that no progress was on disk,
    so every copy is the reason of one more at most, and every crash of one more for each record that waits.
    """
    promises = copies.promises
    within = promises.timer_progress_s if send.by_clock else promises.level_progress_s
    rolled = copies.rolled[send.number]
    stored = [*copies.own[send.number], *rolled]
    brokers = {copy.place.queue.broker for copy in stored}
    by_copies = sum(copies.crashed_after(copy, within) for copy in stored)
    by_crashes = 0
    for crash in copies.ledger.crashes:
        if crash.broker in brokers and crash.at >= send.began_at:
            until = crash.at + promises.early_s
            by_crashes += send.attempts + sum(copy.stored_at is None or copy.stored_at <= until for copy in rolled)
    return min(by_copies, by_crashes)


def _taken_back(copies: Copies, send: Send) -> bool:
    clock_s = copies.promises.clock_s if send.by_clock else 0.0
    in_time = send.due_at - RECALL_MARGIN_S - copies.promises.early_s - clock_s
    if send.recall is not Outcome.DONE or send.recalled_at > in_time:
        return False
    brokers = {crash.broker for crash in copies.ledger.crashes}
    return not any(copies.lost_with_power(broker, send.recalled_at, send.recalled_at) for broker in brokers)


def _early_seen(copies: Copies) -> Iterator[Finding]:
    for seen in copies.ledger.seen:
        if seen.number >= 0:
            send = copies.ledger.sends[seen.number]
            early_s = copies.promises.early_s + (copies.promises.clock_s if send.by_clock else 0.0)
            if send.kind is Kind.DELAYED and seen.at < send.due_at - early_s:
                early = send.due_at - seen.at
                yield Finding("not before its time", f"{seen.group} got {send} {early:.3f} s early")


def due_from_answer(send: Send) -> float:
    """When it is due if the delay began with the answer: the broker counts from a moment before."""
    return send.due_at + send.ended_at - send.began_at


def _latest(send: Send, promises: Promises) -> float:
    """When it is due at the latest. A request without an answer may lie in a socket until its broker runs again."""
    waits = 0.0 if send.outcome is Outcome.DONE else max(0.0, promises.faults_over_at - send.ended_at)
    return due_from_answer(send) + waits


def awaited(copies: Copies) -> Iterator[Finding]:
    """Delayed messages that were acknowledged, are due, and are not there."""
    for send in copies.ledger.sends:
        if send.kind is not Kind.DELAYED or send.outcome is not Outcome.DONE or copies.own[send.number]:
            continue
        due_at = due_from_answer(send) + copies.promises.late_s
        due_at += copies.promises.clock_s if send.by_clock else 0.0
        if send.recall is None and due_at <= copies.view.at and not copies.excused(send):
            yield Finding("awaited", f"{send} was due {copies.view.at - send.due_at:.1f} s ago")
