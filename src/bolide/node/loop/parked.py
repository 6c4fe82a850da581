"""Answers that wait for the log, in the order of the records they answer for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from bolide.broker.core.channel import Channel
from bolide.broker.core.stats import PutTimes
from bolide.remoting.codes import SUCCESS
from bolide.remoting.command import encode
from bolide.remoting.connection import FramedConnection

NO_DEADLINE: Final = 1 << 62


@final
class ParkedReply:
    """An encoded answer, or those to many sends of one read, leaving once the log is confirmed to `offset` (physical
    end of its records)."""

    def __init__(
        self,
        channel: Channel,
        frame: bytes,
        offset: i64,
        deadline: int,
        after: Callable[[bytes], None] | None = None,
        tables: TableWrite | None = None,
    ) -> None:
        self.channel: Channel = channel
        self.frame: bytes = frame
        self.offset: i64 = offset
        self.deadline: int = deadline
        self.after: Callable[[bytes], None] | None = after
        self.tables: TableWrite | None = tables
        """What else must be on disk before it leaves."""
        self.first_end: i64 = offset
        """Physical end of the first of its records."""
        self.sends: int = 1
        """How many sends it answers: `frame` has so many frames."""

    def comes_late(self, code: int) -> None:
        """Answer with a code that says that the record may still be lost. An answer that something else failed stays: a
        reply is stored also when it could not be pushed, and to a client this code is a success."""
        frames: list[bytes] = []
        for response in FramedConnection().receive(self.frame):
            if response.code == SUCCESS:
                response.code = code
            frames.append(encode(response))
        self.frame = b"".join(frames)


@final
class TableWrite:
    """The write of the tables that one turn changed, and the answers that now wait only for it."""

    def __init__(self) -> None:
        self.done: bool = False
        self.error: str = ""
        self.confirmed: list[ParkedReply] = []


@final
class ParkedReplies:
    """A queue in the order of offsets, in which deadlines grow, too. What is taken out is the caller's."""

    def __init__(self) -> None:
        self._waiting: list[ParkedReply] = []
        self._head: int = 0
        self._unwaited: list[ParkedReply] = []
        self.count: int = 0
        """Answers waiting for confirmation."""

    @property
    def size(self) -> i64:
        """Bytes of the log between the first and the last record that is waited for."""
        if self._head >= len(self._waiting):
            return 0
        return self._waiting[len(self._waiting) - 1].offset - self._waiting[self._head].first_end

    def add(self, entry: ParkedReply, wait: bool) -> None:
        """Keep an answer; `wait` False (WAIT=false) leaves with the next write, confirmed or not."""
        if not wait:
            self._unwaited.append(entry)
            return
        self.count += entry.sends
        waiting = self._waiting
        end = len(waiting)
        if end > self._head and waiting[end - 1].offset > entry.offset:
            at = self._after(entry.offset)
            # It answers for an older record, as the second end of a transaction does. At the end of the queue it
            # would look as if everything before it were confirmed with it.
            entry.deadline = min(entry.deadline, waiting[at].deadline)
            waiting.insert(at, entry)
        else:
            waiting.append(entry)

    def _after(self, offset: i64) -> int:
        """The place after all that answer for this record or an older one; many may come late, so it is halved."""
        low, high = self._head, len(self._waiting)
        while low < high:
            middle = (low + high) // 2
            if self._waiting[middle].offset <= offset:
                low = middle + 1
            else:
                high = middle
        return low

    def take_unwaited(self) -> list[ParkedReply]:
        """What does not wait for confirmation: the log was written."""
        taken = self._unwaited
        if taken:
            self._unwaited = []
        return taken

    def take_confirmed(self, limit: i64) -> list[ParkedReply]:
        """Answers whose records all lie below `limit`."""
        waiting = self._waiting
        head = self._head
        count = len(waiting)
        if head == 0 and count > 0 and waiting[count - 1].offset <= limit:
            self._waiting = []  # the common case: all of a turn at once, nothing copied
            self.count = 0
            return waiting
        stop = head
        while stop < count and waiting[stop].offset <= limit:
            stop += 1
        taken = waiting[head:stop]
        self._drop_to(stop)
        return taken

    def take_late(self, now: int) -> list[ParkedReply]:
        """Answers whose time is over."""
        waiting = self._waiting
        stop = self._head
        while stop < len(waiting) and waiting[stop].deadline <= now:
            stop += 1
        taken = waiting[self._head : stop]
        self._drop_to(stop)
        return taken

    def take_beyond(self, written: i64) -> list[ParkedReply]:
        """Answers for records that did not get into the log."""
        everything = self.take_all()
        lost: list[ParkedReply] = []
        for entry in everything:
            if entry.offset > written:
                lost.append(entry)
            else:
                self._waiting.append(entry)
                self.count += entry.sends
        return lost

    def take_all(self) -> list[ParkedReply]:
        """Everything: the log has failed."""
        taken = self._waiting[self._head :] + self._unwaited
        self._waiting = []
        self._unwaited = []
        self._head = 0
        self.count = 0
        return taken

    def next_deadline(self) -> int:
        """When `take_late` has something to give; NO_DEADLINE for never."""
        if self._head < len(self._waiting):
            return self._waiting[self._head].deadline
        return NO_DEADLINE

    def _drop_to(self, stop: int) -> None:
        for entry in self._waiting[self._head : stop]:
            self.count -= entry.sends
        if stop == len(self._waiting):
            self._waiting = []
            self._head = 0
        elif stop > 4096:
            self._waiting = self._waiting[stop:]
            self._head = 0
        else:
            self._head = stop


def note_times(leaving: list[ParkedReply], begun: int, times: PutTimes) -> int:
    """Count how long sends took whose answers leave now; `begun` is the deadline of one that would begin now. Those of
    one turn share their deadline, and are counted together. Returns how many they are."""
    total = 0
    at = 0
    count = len(leaving)
    while at < count:
        deadline = leaving[at].deadline
        sends = 0
        while at < count and leaving[at].deadline == deadline:
            sends += leaving[at].sends
            at += 1
        times.add(begun - deadline, sends)
        total += sends
    return total


def with_code(frame: bytes, code: int, remark: str) -> bytes:
    """Our own answers with another code: for sends whose flush timed out or failed (rare, so decoded)."""
    frames: list[bytes] = []
    for response in FramedConnection().receive(frame):
        response.code = code
        if remark:
            response.remark = remark
        frames.append(encode(response))
    return b"".join(frames)
