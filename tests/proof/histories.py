"""A history that keeps every promise of the ledger, and changes that break one."""

from __future__ import annotations

from proof.ledger import (
    Decision,
    Group,
    Kind,
    Ledger,
    Outcome,
    Place,
    Promises,
    Queue,
    QueueView,
    Send,
    Served,
    View,
    judge,
)
from proof.ledger.facts import Seen

A0, A1 = Queue("a", "T", 0), Queue("a", "T", 1)
TABLE = ("topic", "a", "T")


class History:
    """A run of one topic and one group in which everything is as promised."""

    def __init__(self) -> None:
        self.time = 100.0
        self.log_end = 0
        self.ledger = Ledger(lambda: self.time)
        self.view = View()
        self.promises = Promises(late_s=1.0)
        self.group = self.ledger.groups["g"] = Group("g", ("T",), most_retries=2)
        created = self.ledger.changing(TABLE, "2 queues")
        self.ledger.changed(created, Outcome.DONE)
        self.view.tables[TABLE] = "2 queues"
        self.queue(A0)
        self.queue(A1)
        self.plain = [self.kept(A0) for _ in range(4)]
        self.delayed = self.kept(A0, Kind.DELAYED, due=5.0)
        self.half = self.kept(A1, Kind.HALF)
        self.ledger.decided(self.half, Decision.COMMIT)
        self.failed = self.kept(A1)
        for queue in (A0, A1):
            for served in self.view.queues[queue].messages:
                self.time = max(self.time, 106.0)
                if served.number != self.failed.number:
                    self.consume(served)
        at = self.view.queues[A1].messages[-1]
        for _ in range(3):
            self.consume(at, accepted=False)
        self.dead = self.serve(Queue("a", "%DLQ%g", 0), self.failed)
        self.view.offsets["g", A0] = 5
        self.ledger.offset_read("g", A1, 2)
        self.view.at = self.time = 120.0

    def queue(self, queue: Queue) -> QueueView:
        return self.view.queues.setdefault(queue, QueueView(0, 0))

    def sent(self, kind: Kind = Kind.PLAIN, due: float = 0.0) -> Send:
        self.time += 0.1
        due_at = self.time + due if due else 0.0
        return self.ledger.send("p", "T", b"body", tags="red", keys="k", kind=kind, due_at=due_at, lane="p")

    def kept(self, queue: Queue, kind: Kind = Kind.PLAIN, due: float = 0.0) -> Send:
        send = self.sent(kind, due)
        served = self.serve(queue, send)
        self.ledger.acknowledged(send, served.place if kind is Kind.PLAIN else None)
        return send

    def serve(self, queue: Queue, send: Send) -> Served:
        view = self.queue(queue)
        stored_at = max(self.time, send.due_at)
        self.log_end += 100
        served = Served(Place(queue, view.end), send.content, self.log_end, stored_at)
        view.messages.append(served)
        view.end += 1
        return served

    def consume(self, served: Served, accepted: bool = True) -> Seen:
        seen = self.ledger.consumed("g", "m", served.place, served.content)
        self.ledger.listened(seen, accepted)
        return seen

    def found(self) -> set[str]:
        return {finding.promise for finding in judge(self.ledger, self.view, self.promises)}


def deliver_twice(history: History) -> None:
    history.consume(history.serve(A1, history.delayed))
