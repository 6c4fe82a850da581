"""Turns the journals of all processes into one ledger, in the order in which things happened.

Message numbers in the journals tell the processes apart; the ledger counts messages itself. So every body is shown to
the ledger under the ledger's number.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from operator import itemgetter
from typing import Any, Final

from proof.attack import journal
from proof.attack.consuming import EXPRESSIONS, GROUPS, ORDERLY, wanted
from proof.kit.journal import Entry
from proof.ledger import Content, Decision, Finding, Group, Kind, Ledger, Outcome, Place, Queue, Send, Served, View
from proof.ledger.facts import Seen
from proof.ledger.tables import allowed

OUTCOMES: Final = {
    journal.DONE: Outcome.DONE,
    journal.REFUSED: Outcome.REFUSED,
    journal.UNKNOWN: Outcome.UNKNOWN,
}
CRASHED: Final = "crashed"


def _wants(name: str, content: Content) -> bool:
    return wanted(name, content.tags, dict(content.properties))


class Bookkeeping:
    """The ledger of a run, made from journal entries."""

    def __init__(self) -> None:
        self._now = 0.0
        self.ledger = Ledger(lambda: self._now)
        self.failures: list[str] = []
        self._of: dict[int, int] = {}
        self._checks: dict[int, int] = {}
        self._listening: dict[str, Seen] = {}
        self._changes: dict[str, Any] = {}
        for name, topics in GROUPS.items():
            group = Group(name, topics, orderly=name == ORDERLY)
            if name in EXPRESSIONS:
                group.wants = partial(_wants, name)
            self.ledger.groups[name] = group

    def tell(self, entries: Iterable[Entry]) -> None:
        """Tell the ledger what all journals say."""
        for entry in sorted(entries, key=itemgetter(0)):
            self._now = entry[0]
            self._tell(entry[1], entry[2:])

    def _tell(self, what: str, fields: list[Any]) -> None:
        if what == journal.SEND:
            self._send(*fields)
        elif what == journal.DONE:
            self._stored(*fields)
        elif what in (journal.REFUSED, journal.UNKNOWN):
            for number in fields[0]:
                send = self.ledger.sends[self._of[number]]
                (self.ledger.refused if what == journal.REFUSED else self.ledger.unknown)(send, fields[1])
        elif what == journal.GOT:
            self._got(*fields)
        elif what == journal.LISTENED:
            seen = self._listening.pop(fields[0], None)
            if seen is not None:
                self.ledger.listened(seen, fields[1])
        elif what == journal.CHANGING:
            value = tuple(fields[2]) if isinstance(fields[2], list) else fields[2]
            self._changes[fields[0]] = self.ledger.changing(tuple(fields[1]), value)
        elif what == journal.CHANGED:
            self.ledger.changed(self._changes[fields[0]], OUTCOMES[fields[1]])
        elif what == journal.TABLES:
            self._tables(*fields)
        elif what == CRASHED:
            self.ledger.crashed(fields[0], ahead=len(fields) > 1)
        elif what == journal.FAILED:
            self.failures.append(fields[0])

    def _tables(self, found: list[tuple[list[str], Any]]) -> None:
        """What a server has while it is down must be what was answered so far."""
        for parts, value in found:
            key = tuple(parts)
            if key in self.ledger.changes:
                may_be = allowed(self.ledger.changes[key])
                kept = tuple(value) if isinstance(value, list) else value
                if kept not in may_be:
                    text = f"{' '.join(key)} is {kept!r} after a kill, and must be one of {may_be}"
                    self.ledger.findings.append(Finding("answered tables are kept", text))

    def _send(
        self,
        number: int,
        topic: str,
        size: int,
        tags: str,
        keys: str,
        properties: dict[str, str],
        kind: str,
        due: float,
        lane: str,
    ) -> None:
        filler = journal.filler(number, size)
        send = self.ledger.send(
            lane or "producer",
            topic,
            filler,
            tags=tags,
            keys=keys,
            properties=properties,
            kind=Kind(kind),
            due_at=self._now + due if due else 0.0,
            lane=lane,
        )
        self._of[number] = send.number
        self._checks[number] = journal.check(journal.body(number, size))
        if send.kind is Kind.HALF:
            self.ledger.decided(send, Decision.COMMIT if journal.commits(number) else Decision.ROLLBACK)

    def _stored(self, numbers: list[int], broker: str, topic: str, queue: int, offset: int) -> None:
        sends = [self.ledger.sends[self._of[number]] for number in numbers]
        for index, send in enumerate(sends):
            # A delayed message is first in a queue of the broker's own, and its answer names that.
            plain = send.kind is Kind.PLAIN
            self.ledger.acknowledged(send, Place(Queue(broker, topic, queue), offset + index) if plain else None)

    def _got(
        self,
        serial: str,
        group: str,
        broker: str,
        queue_topic: str,
        queue: int,
        offset: int,
        number: int,
        topic: str,
        check: int,
        tags: str,
        keys: str,
        properties: dict[str, str],
    ) -> None:
        content = Content(topic, self._shown(number, check), tags, keys, tuple(sorted(properties.items())))
        place = Place(Queue(broker, queue_topic, queue), offset)
        self._listening[serial] = self.ledger.consumed(group, serial.partition("-")[0], place, content)

    def _shown(self, number: int, check: int) -> bytes:
        """The body that a consumer got, under the ledger's number."""
        if number not in self._of:
            return b"a body that nobody sent, #%d#" % number
        if self._checks[number] != check:
            return b"#%d# and other bytes than were sent" % self._of[number]
        return self.ledger.sends[self._of[number]].content.body

    def number_in_ledger(self, view: View) -> None:
        """Put the ledger's numbers into the bodies of a view that was read from files."""
        for found in view.queues.values():
            for index, served in enumerate(found.messages):
                number = served.number
                if number is not None:
                    body = self._shown(number, journal.check(served.content.body))
                    old = served.content
                    content = Content(old.topic, body, old.tags, old.keys, old.properties)
                    found.messages[index] = Served(served.place, content, served.physical, served.stored_at)

    def in_journals(self, found: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
        """Groups and messages by the ledger's numbers, by those of the journals."""
        numbers = {own: number for number, own in self._of.items()}
        return {(group, numbers[own]) for group, own in found}

    def counted(self, outcome: Outcome) -> int:
        """How many sends ended so."""
        return sum(send.outcome is outcome for send in self.ledger.sends)

    def sent(self, kind: Kind) -> list[Send]:
        """The sends of a kind."""
        return [send for send in self.ledger.sends if send.kind is kind]
