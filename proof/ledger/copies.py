"""Where each sent message is at the end, and what excuses one that is not there."""

from __future__ import annotations

import math
from collections import defaultdict

from proof.ledger.facts import (
    DEAD_PREFIX,
    RETRY_PREFIX,
    Change,
    Crash,
    Kind,
    Outcome,
    Place,
    Promises,
    Send,
    Served,
    View,
)
from proof.ledger.ledger import Ledger


class Copies:
    """The ledger beside the view: what was found where."""

    def __init__(self, ledger: Ledger, view: View, promises: Promises) -> None:
        self.ledger = ledger
        self.view = view
        self.promises = promises
        self.own: dict[int, list[Served]] = defaultdict(list)
        """By number: the copies in the topic that the message was sent to."""
        self.elsewhere: list[Served] = []
        """In users' topics, and not sent there."""
        self.rolled: dict[int, list[Served]] = defaultdict(list)
        """By number: those that were stored again while the message waited for its time."""
        for waiting in view.rolled:
            if waiting.number is not None:
                self.rolled[waiting.number].append(waiting)
        self.given_at: dict[tuple[str, Place], set[int | None]] = defaultdict(set)
        """By group: the messages that it got at a place. It is one, unless the log there became another."""
        for seen in ledger.seen:
            self.given_at[seen.group, seen.place].add(seen.number)
        self.at: dict[Place, Served] = {}
        self.topics = {send.content.topic for send in ledger.sends}
        for queue, found in sorted(view.queues.items()):
            for served in found.messages:
                self.at[served.place] = served
                number = served.number
                known = number is not None and number < len(ledger.sends)
                if queue.topic.startswith((RETRY_PREFIX, DEAD_PREFIX)):
                    if not known:
                        self.elsewhere.append(served)
                elif known and number is not None and ledger.sends[number].content.topic == queue.topic:
                    self.own[number].append(served)
                elif queue.topic in self.topics:
                    self.elsewhere.append(served)

    def lost_with_power(self, broker: str, began_at: float, ended_at: float) -> bool:
        """Whether what was acknowledged then may be gone: a tail that no asynchronous flush had reached. An answer may
        be on its way while the power fails.
        """
        return any(
            began_at <= crash.at <= (math.inf if crash.tail else ended_at + self.promises.tail_s)
            for crash in self.cut_short(broker)
        )

    def cut_short(self, broker: str) -> list[Crash]:
        """The crashes that may have taken the end of the broker's log."""
        loses = not self.promises.sync_flush
        return [
            crash for crash in self.ledger.crashes if crash.broker == broker and (crash.tail or (crash.power and loses))
        ]

    def deletions(self, send: Send) -> list[Change]:
        """The deletions of its topic that may have met the message."""
        broker = send.place.queue.broker if send.place is not None else None
        topic = send.content.topic
        keys = [key for key in self.ledger.changes if key[0] == "topic" and key[2] == topic]
        if broker is not None:
            keys = [key for key in keys if key[1] == broker]
        return [
            deletion
            for key in keys
            for deletion in self.ledger.deletions(key[1], topic)
            if deletion.outcome is not Outcome.DONE or deletion.answered > send.began
        ]

    def deleted_for_sure(self, send: Send) -> bool:
        """Whether the message was in the topic before a deletion of it that was answered. What waits, for its time or
        for the end of a transaction, is not in the topic yet.
        """
        return (
            send.kind is Kind.PLAIN
            and send.outcome is Outcome.DONE
            and any(
                deletion.outcome is Outcome.DONE and send.ended < deletion.asked for deletion in self.deletions(send)
            )
        )

    def expired(self, place: Place) -> bool:
        """Whether retention may have taken what was there."""
        found = self.view.queues.get(place.queue)
        return self.promises.expires and (found is None or place.offset < found.first)

    def excused(self, send: Send) -> bool:
        """Whether an acknowledged message may be missing."""
        if self.deletions(send):
            return True
        if send.place is not None:
            broker = send.place.queue.broker
            return self.lost_with_power(broker, send.began_at, send.ended_at) or self.expired(send.place)
        brokers = {crash.broker for crash in self.ledger.crashes}
        return self.promises.expires or any(
            self.lost_with_power(broker, send.began_at, send.ended_at) for broker in brokers
        )

    def crashed_after(self, copy: Served, within: float) -> bool:
        """Whether the copy's broker crashed so soon after it that it may not have known of it afterwards."""
        at, slack = copy.stored_at, self.promises.early_s
        return any(
            crash.broker == copy.place.queue.broker and (at is None or at - slack <= crash.at <= at + within + slack)
            for crash in self.ledger.crashes
        )
