"""Transactions: committed ones appear once, rolled back ones never, undecided ones as their checks say."""

from __future__ import annotations

from collections.abc import Iterator

from proof.ledger.copies import Copies
from proof.ledger.facts import Decision, Finding, Kind, Outcome


def judge(copies: Copies) -> Iterator[Finding]:
    """All half messages."""
    for send in copies.ledger.sends:
        if send.kind is not Kind.HALF:
            continue
        found = copies.own[send.number]
        if found and send.decision is not Decision.COMMIT:
            said = "rolled back" if send.decision is Decision.ROLLBACK else "never committed"
            yield Finding("rolled back is nowhere", f"{send} was {said}, and is at {found[0].place}")
        if len(found) > send.attempts:
            places = ", ".join(str(served.place) for served in found)
            yield Finding("committed once", f"{send} is at {places}")
    yield from (Finding("committed is delivered", finding.detail) for finding in awaited(copies))


def awaited(copies: Copies) -> Iterator[Finding]:
    """Transactions that were committed, and whose messages are not there."""
    if copies.promises.checks_given_up:
        return
    for send in copies.ledger.sends:
        if send.kind is not Kind.HALF or send.outcome is not Outcome.DONE or send.decision is not Decision.COMMIT:
            continue
        if not copies.own[send.number] and not copies.excused(send):
            yield Finding("awaited", f"{send} was committed {copies.view.at - send.decided_at:.1f} s ago")
