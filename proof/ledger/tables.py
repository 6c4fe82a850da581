"""Tables: what was answered is what is there, whatever crashed since."""

from __future__ import annotations

from collections.abc import Iterator

from proof.ledger.facts import Change, Finding, Outcome, View
from proof.ledger.ledger import Ledger


def judge(ledger: Ledger, view: View) -> Iterator[Finding]:
    """Each key that was changed and is in the view has a value that the changes allow.

    A view names a key that is not there with the value None; a key that it does not name was not read.
    """
    for key, changes in sorted(ledger.changes.items()):
        if key not in view.tables:
            continue
        found, may_be = view.tables[key], allowed(changes)
        if found not in may_be:
            name = " ".join(key)
            wanted = " or ".join(repr(value) for value in may_be)
            yield Finding("answered tables are kept", f"{name} is {found!r}, and must be {wanted}")


def allowed(changes: list[Change]) -> list[object]:
    """The values that a key may have: those of changes that no later one has surely replaced.

    A change without answer may take effect at any time, so it is allowed as long as it is not replaced by one that was
    asked for after it ended; one whose answer never came may arrive even later than that.
    """
    done = [change for change in changes if change.outcome is Outcome.DONE]
    last_asked = max((change.asked for change in done), default=-1)
    values = [
        change.value
        for change in changes
        if change.outcome in (Outcome.UNKNOWN, Outcome.OPEN)
        or (change.outcome is Outcome.DONE and change.answered > last_asked)
    ]
    if not done:
        values.append(None)
    return list(dict.fromkeys(values))
