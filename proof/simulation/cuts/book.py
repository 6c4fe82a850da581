"""What was asked of a broker and what it answered: the book that a recovered store is checked against.

It is kept by the clients' side alone. `unknown` is whatever was asked and not answered when the power failed: it may
have happened or not. What an asynchronous flush acknowledged is `safe` if it was on disk when the power failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

UNKNOWN = "unknown"
DONE = "done"
REFUSED = "refused"


@dataclass
class Sent:
    """One message of a producer."""

    uid: str
    kind: str
    """plain, batch, level, timer or half."""
    topic: str
    queue_id: int
    epoch: int
    """How often its topic had been deleted, or was asked to be, when it was sent."""
    body: bytes
    properties: dict[str, str]
    boot: int
    """The number of the boot in which it was sent: a message in delivery may be repeated once a boot after it."""
    state: str = UNKNOWN
    safe: bool = False
    place: int = -1
    """Physical offset, from the answer."""
    queue_offset: int = -1
    end: str = ""
    """Of a half message: commit or rollback, once one of them was asked."""
    end_state: str = ""
    end_safe: bool = False


@dataclass
class Topic:
    """One topic, or one group. `states` holds every state (number of queues; 0 = there is none) that it may have after
    a power cut."""

    name: str
    states: set[int] = field(default_factory=lambda: {0})
    epoch: int = 0
    """Grows with every deletion that was asked."""
    certain_epoch: int = 0
    """Of a deletion that was answered: messages of older epochs are gone."""
    asked: int = 0
    """Changes that were asked."""

    def ask(self, state: int) -> int:
        """A change is asked; its number."""
        self.states = self.states | {state}
        self.asked += 1
        return self.asked


@dataclass
class Book:
    """One store's book."""

    sent: dict[str, Sent] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    groups: dict[str, Topic] = field(default_factory=dict)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """The highest offset that was ever committed: (group, topic, queue)."""
    expiry_asked: bool = False
    """Log files may have been deleted by their age."""
    hours_passed: bool = False
    """Half messages may have become too old to be asked about."""
    next_number: int = 0

    def next_uid(self) -> str:
        """A name for the next message."""
        self.next_number += 1
        return f"u{self.next_number:06d}"

    def of_kind(self, *kinds: str) -> list[Sent]:
        """Messages of these kinds, oldest first."""
        return [sent for sent in self.sent.values() if sent.kind in kinds]

    def survive(self, stored: set[str], ended: set[str]) -> None:
        """The power fails: what was acknowledged and is on disk by now must never be lost.

        `stored` are the messages in the log that the worst power cut would leave, `ended` those in their own topic.
        """
        for sent in self.sent.values():
            if sent.state == DONE and sent.uid in stored:
                sent.safe = True
            if sent.end_state == DONE and sent.uid in ended:
                sent.end_safe = True
