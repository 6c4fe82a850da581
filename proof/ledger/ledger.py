"""`Ledger`: what a harness asked for and was told, in the order in which it happened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from proof.ledger.facts import (
    Change,
    Committed,
    Content,
    Crash,
    Decision,
    Finding,
    Group,
    Kind,
    Outcome,
    Place,
    Queue,
    Seen,
    Send,
    body_of,
    number_of,
)


class Ledger:
    """The book of one run. `clock` gives seconds that never jump."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._steps = 0
        self.sends: list[Send] = []
        self.changes: dict[tuple[str, ...], list[Change]] = defaultdict(list)
        self.crashes: list[Crash] = []
        self.groups: dict[str, Group] = {}
        self.seen: list[Seen] = []
        self.committed: list[Committed] = []
        self.findings: list[Finding] = []
        """What was wrong as soon as it was told."""

    def step(self) -> int:
        """Number the next event."""
        self._steps += 1
        return self._steps

    @property
    def now(self) -> float:
        """The time of the ledger's clock."""
        return self._clock()

    # -- sends

    def send(
        self,
        producer: str,
        topic: str,
        filler: bytes,
        *,
        tags: str = "",
        keys: str = "",
        properties: Mapping[str, str] | None = None,
        kind: Kind = Kind.PLAIN,
        due_at: float = 0.0,
        by_clock: bool = False,
        lane: str = "",
    ) -> Send:
        """A message is about to be sent; its body is `send.content.body`."""
        number = len(self.sends)
        content = Content(topic, body_of(number, filler), tags, keys, tuple(sorted((properties or {}).items())))
        made = Send(number, content, producer, kind, self.step(), self.now, lane, due_at, by_clock)
        self.sends.append(made)
        return made

    def acknowledged(self, send: Send, place: Place | None) -> None:
        """The broker says that it keeps the message, at this place of its queue (a half message has none)."""
        self._ended(send, Outcome.DONE)
        send.place = place

    def acknowledged_batch(self, sends: Sequence[Send], first: Place) -> None:
        """The broker says that it keeps a batch, one message after the other."""
        for index, send in enumerate(sends):
            self.acknowledged(send, Place(first.queue, first.offset + index))

    def refused(self, send: Send, why: str) -> None:
        """The broker, or the client before it asked, says that the message is not kept."""
        self._ended(send, Outcome.REFUSED)
        send.why = why

    def unknown(self, send: Send, why: str) -> None:
        """No answer came, or one that leaves open whether the message is kept."""
        self._ended(send, Outcome.UNKNOWN)
        send.why = why

    def _ended(self, send: Send, outcome: Outcome) -> None:
        send.outcome = outcome
        send.ended = self.step()
        send.ended_at = self.now

    def decided(self, send: Send, decision: Decision) -> None:
        """The producer's last word on a transaction; it never changes its mind."""
        if send.decision not in (Decision.OPEN, decision):
            raise ValueError(f"{send} was decided before, as {send.decision.value}")
        send.decision = decision
        send.decided_at = self.now

    def recalled(self, send: Send, outcome: Outcome) -> None:
        """A delayed message was taken back, or might have been."""
        if send.recall is not Outcome.DONE:
            send.recall = outcome
            send.recalled_at = self.now

    # -- tables

    def changing(self, key: tuple[str, ...], value: object) -> Change:
        """A write of a table is about to be asked for. Keys begin with the table's name: ("topic", broker, name)."""
        change = Change(key, value, self.step())
        self.changes[key].append(change)
        return change

    def changed(self, change: Change, outcome: Outcome) -> None:
        """The write was answered, or its answer did not come."""
        change.outcome = outcome
        change.answered = self.step()

    def deletions(self, broker: str, topic: str) -> list[Change]:
        """The deletions of a topic that took effect, or may have."""
        changes = self.changes.get(("topic", broker, topic), ())
        return [change for change in changes if change.value is None and change.outcome is not Outcome.REFUSED]

    # -- faults

    def crashed(self, broker: str, *, power: bool = False, tail: bool = False, ahead: bool = False) -> None:
        """A broker was killed; with `power` its machine lost power, too, with `tail` a replica that may lack the end of
        its log has its place, with `ahead` one that lacks what was delivered, too.
        """
        self.crashes.append(Crash(broker, self.step(), self.now, power, tail, ahead))

    def unsure(self, broker: str, since: int) -> None:
        """What was answered about this broker's tables from this step on may be lost: a replica that was not told yet
        has its place.
        """
        for key, changes in self.changes.items():
            if key[0] not in ("topic", "group", "offset") or key[1] != broker:
                continue
            for change in changes:
                if change.outcome is Outcome.DONE and change.answered >= since:
                    change.outcome = Outcome.UNKNOWN

    # -- consumers

    def consumed(self, group: str, member: str, place: Place, content: Content) -> Seen:
        """A listener is given a message; `place` is where it was pulled from, `content.topic` the topic it shows."""
        number = number_of(content.body)
        seen = Seen(group, member, place, -1 if number is None else number, self.step(), self.now)
        self.seen.append(seen)
        if number is None or number >= len(self.sends):
            self.findings.append(Finding("served what was not sent", f"{group} at {place}: {content.body[:40]!r}"))
            seen.number = -1
            return seen
        send = self.sends[number]
        differs = send.content.difference(content)
        if differs:
            self.findings.append(Finding("served as sent", f"{group} got {send} at {place} with another {differs}"))
        if send.outcome is Outcome.REFUSED:
            self.findings.append(Finding("refused is nowhere", f"{group} got {send} at {place}: {send.why}"))
        return seen

    def listened(self, seen: Seen, accepted: bool) -> None:
        """The listener is through: it accepted the message, or sends it back."""
        seen.accepted = accepted
        seen.at = self.now

    def offset_read(self, group: str, queue: Queue, offset: int) -> None:
        """The broker says what a group has committed."""
        self.committed.append(Committed(group, queue, offset, self.step()))

    def reset(self, group: str, queue: Queue, offset: int) -> None:
        """An operator moves a group's offset: what is below the new one may be left out."""
        known = self.groups.get(group)
        if known is not None:
            known.skipped[queue] = max(known.skipped.get(queue, 0), offset)

    # -- figures

    def figure(self, name: str, value: float, limit: float) -> None:
        """A figure that has a bound: memory, the time of a turn of the loop, the time to resume."""
        if value > limit:
            self.findings.append(Finding(f"{name} is bounded", f"{value:g}, above {limit:g}"))
