"""An independent ledger: what was sent, answered and served, and whether that keeps Bolide's promises.

It does no I/O and imports nothing of Bolide, so it judges real processes as well as simulated ones. A harness tells
a `Ledger` what it asks and what it is answered, reads everything at the end into a `View`, and calls `judge`.
"""

from proof.ledger.facts import (
    Content,
    Crash,
    Decision,
    Finding,
    Group,
    Kind,
    Outcome,
    Place,
    Promises,
    Queue,
    QueueView,
    Send,
    Served,
    View,
    number_of,
)
from proof.ledger.judging import judge, outstanding, passed_over
from proof.ledger.ledger import Ledger

__all__ = [
    "Content", "Crash", "Decision", "Finding", "Group", "Kind", "Ledger", "Outcome", "Place", "Promises", "Queue",
    "QueueView", "Send", "Served", "View", "judge", "number_of", "outstanding",
    "passed_over",
]  # fmt: skip
