"""The soak's own books: which messages were acknowledged, and which reader got which of them.

A byte a message and a few bytes a reader and message, so that a run of days fits into memory. A message that nobody
acknowledged may be there or not; one that was acknowledged has to reach each reader that wants it, a recalled one and
one that a reader does not want must not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from proof.soak.events import Event, What
from proof.soak.streams import READERS, STREAMS, Reader, Stream

ACKNOWLEDGED, FAILED, RECALLED = 1, 2, 4
MOST_NAMED = 5
"""Numbers that a fault names; the others are counted."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken promise: what, and the messages it concerns in words."""

    what: str
    detail: str


class Flags:
    """One byte for each number, 0 where nothing is known."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def mark(self, number: int, bit: int) -> None:
        """Set a bit of a number."""
        self._reach(number)
        self._bytes[number] |= bit

    def count(self, number: int) -> None:
        """Add one to a number; 255 means that or more."""
        self._reach(number)
        self._bytes[number] = min(self._bytes[number] + 1, 255)

    def _reach(self, number: int) -> None:
        if number >= len(self._bytes):
            self._bytes.extend(bytes(number + 1 - len(self._bytes)))

    def __getitem__(self, number: int) -> int:
        return self._bytes[number] if number < len(self._bytes) else 0

    def __len__(self) -> int:
        return len(self._bytes)


class Accounts:
    """Takes every event and tells what is outstanding, and at the end what is wrong."""

    def __init__(self) -> None:
        self._sent = {stream: Flags() for stream in STREAMS}
        self._seen = {reader.name: Flags() for reader in READERS}
        self._settled = dict.fromkeys(self._seen, 0)
        """By reader: all numbers below are through, so that nobody looks at them again."""
        self._late: dict[Stream, list[int]] = {stream: [] for stream in STREAMS}
        self.acknowledged = 0
        self.failed = 0
        self.recalled = 0
        self.consumed = 0
        self.early: list[Event] = []
        self._marks: list[tuple[float, dict[Stream, int]]] = []
        """At a time, how many numbers of each stream there were: older ones are settled first."""

    def take(self, events: Iterable[Event]) -> None:
        """Enter events, in any order."""
        for event in events:
            if event.what is What.CONSUMED:
                assert event.reader is not None
                self._consumed(event, event.reader)
            elif event.what is What.ACKNOWLEDGED:
                self.acknowledged += 1
                self._sent[event.stream].mark(event.number, ACKNOWLEDGED)
            elif event.what is What.RECALLED:
                self.recalled += 1
                self._sent[event.stream].mark(event.number, RECALLED)
            else:
                self.failed += 1
                self._sent[event.stream].mark(event.number, FAILED)

    def _consumed(self, event: Event, reader: Reader) -> None:
        self.consumed += 1
        seen = self._seen[reader.name]
        if event.stream in (Stream.LEVEL, Stream.TIMER) and not seen[event.number]:
            self._late[event.stream].append(event.late_ms)
            if event.late_ms < 0:
                self.early.append(event)
        seen.count(event.number)

    def lateness(self, stream: Stream) -> float | None:
        """The median of how late (ms) what has come since the last call was; None if nothing came."""
        late, self._late[stream] = self._late[stream], []
        return median(late) if late else None

    def _owed(self, reader: Reader, number: int) -> bool:
        state = self._sent[reader.stream][number]
        return bool(state & ACKNOWLEDGED) and not state & RECALLED and reader.wants(number)

    def outstanding(self, reader: Reader) -> int:
        """Messages that this reader has to get and has not got yet."""
        seen, first = self._seen[reader.name], self._settled[reader.name]
        end = len(self._sent[reader.stream])
        missing = [number for number in range(first, end) if self._owed(reader, number) and not seen[number]]
        settled = missing[0] if missing else end
        # What is still under way may be acknowledged later: only numbers that are decided are left behind.
        while first < settled and self._sent[reader.stream][first]:
            first += 1
        self._settled[reader.name] = first
        return len(missing)

    def mark(self, at: float) -> None:
        """Remember how far each stream is at a time."""
        self._marks.append((at, {stream: len(sent) for stream, sent in self._sent.items()}))

    def settled_before(self) -> float:
        """The latest time of a mark of which every reader has got everything; 0 if there is none.

        It goes by the last calls of `outstanding`.
        """
        while len(self._marks) > 1 and self._is_settled(self._marks[1][1]):
            del self._marks[0]
        return self._marks[0][0] if self._marks and self._is_settled(self._marks[0][1]) else 0.0

    def _is_settled(self, ends: dict[Stream, int]) -> bool:
        return all(self._settled[reader.name] >= ends[reader.stream] for reader in READERS)

    def repeated(self) -> int:
        """Deliveries to a reader beyond the first: legal, at least once is what is promised."""
        return sum(max(flags[number] - 1, 0) for flags in self._seen.values() for number in range(len(flags)))

    def faults(self) -> Iterator[Fault]:
        """Everything that is wrong, once all has settled."""
        for reader in READERS:
            sent, seen = self._sent[reader.stream], self._seen[reader.name]
            numbers = range(max(len(sent), len(seen)))
            lost = [number for number in numbers if self._owed(reader, number) and not seen[number]]
            yield from fault("acknowledged and not consumed", reader, lost)
            unasked = [number for number in numbers if seen[number] and not reader.wants(number)]
            yield from fault("consumed though the reader must not get it", reader, unasked)
            recalled = [number for number in numbers if seen[number] and sent[number] & RECALLED]
            yield from fault("consumed though it was recalled", reader, recalled)
            unsent = [number for number in numbers if seen[number] and not sent[number]]
            yield from fault("consumed though it was never sent", reader, unsent)
        if self.early:
            worst = min(self.early, key=lambda event: event.late_ms)
            yield Fault(
                "delivered before it was due",
                f"{len(self.early)} messages, {worst.stream.value} {worst.number} by {-worst.late_ms} ms",
            )


def fault(what: str, reader: Reader, numbers: list[int]) -> Iterator[Fault]:
    """A fault if there are any numbers."""
    if numbers:
        named = ", ".join(str(number) for number in numbers[:MOST_NAMED])
        more = f" and {len(numbers) - MOST_NAMED} more" if len(numbers) > MOST_NAMED else ""
        yield Fault(what, f"{reader.name}: {reader.stream.value} {named}{more}")
