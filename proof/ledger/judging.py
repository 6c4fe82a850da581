"""`judge`: every promise, held against everything that can be read once a run is over."""

from __future__ import annotations

from proof.ledger import consumption, delayed, stored, tables, transactions
from proof.ledger.copies import Copies
from proof.ledger.facts import Finding, Promises, View
from proof.ledger.ledger import Ledger


def judge(ledger: Ledger, view: View, promises: Promises) -> list[Finding]:
    """What was not kept, each finding once; [] when all is well."""
    copies = Copies(ledger, view, promises)
    found = [
        *ledger.findings,
        *stored.judge(copies),
        *delayed.judge(copies),
        *transactions.judge(copies),
        *consumption.judge(copies),
        *tables.judge(ledger, view),
    ]
    return list(dict.fromkeys(found))


def passed_over(ledger: Ledger, view: View, promises: Promises) -> set[tuple[str, int]]:
    """What `outstanding` does not wait for, though it is there: groups and messages that they were carried past."""
    return consumption.passed_over(Copies(ledger, view, promises))


def outstanding(ledger: Ledger, view: View, promises: Promises) -> list[Finding]:
    """What has yet to happen: routes, deliveries, ends of transactions, consumption. A harness waits for [] and then
    judges."""
    copies = Copies(ledger, view, promises)
    return [
        *stored.awaited(copies),
        *delayed.awaited(copies),
        *transactions.awaited(copies),
        *consumption.awaited(copies),
    ]
