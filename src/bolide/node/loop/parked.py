"""Replies that wait for the log, in the order of their records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from bolide.broker.core.channel import Channel
from bolide.broker.core.stats import PutTimes
from bolide.remoting.codec import Outgoing
from bolide.remoting.codes import SERVICE_NOT_AVAILABLE, SUCCESS

NO_DEADLINE: Final = 1 << 62


@final
class ParkedReply:
    """A response, or the responses to several sends of one read. It is sent once the log is confirmed up to `offset`
    (physical end of its records)."""

    def __init__(
        self,
        channel: Channel,
        response: Outgoing,
        offset: i64,
        deadline: int,
        after: Callable[[], None] | None = None,
        tables: TableWrite | None = None,
    ) -> None:
        self.channel: Channel = channel
        self.response: Outgoing = response
        self.offset: i64 = offset
        self.deadline: int = deadline
        self.after: Callable[[], None] | None = after
        self.tables: TableWrite | None = tables
        """Table write that must also be complete before the response is sent."""
        self.first_end: i64 = offset
        """Physical end of the first of its records."""
        self.sends: int = 1
        """Number of sends that `response` answers."""

    def comes_late(self, code: int) -> None:
        """Change a successful response to a code for records that may be lost. A response that reports another failure
        is kept: a reply message is stored even if its push failed, and the client treats this code as success."""
        if self.response.code == SUCCESS:
            self.response.code = code

    def fail(self, remark: str) -> None:
        """Change the response to an error, because the records or their topic may be lost.

        `remark` may contain a file name that cannot be encoded as UTF-8.
        """
        self.response.code = SERVICE_NOT_AVAILABLE
        self.response.remark = remark.encode(errors="replace").decode()


@final
class TableWrite:
    """The write of the tables changed in one turn, and the responses that wait only for it."""

    def __init__(self) -> None:
        self.done: bool = False
        self.error: str = ""
        self.confirmed: list[ParkedReply] = []


@final
class ParkedReplies:
    """Queue in the order of offsets, with ascending deadlines. Methods that return entries remove them."""

    def __init__(self) -> None:
        self._waiting: list[ParkedReply] = []
        self._head: int = 0
        self._unwaited: list[ParkedReply] = []
        self.count: int = 0
        """Number of responses that wait for confirmation."""

    @property
    def size(self) -> i64:
        """Bytes of the log between the first and the last pending record."""
        if self._head >= len(self._waiting):
            return 0
        return self._waiting[len(self._waiting) - 1].offset - self._waiting[self._head].first_end

    def add(self, entry: ParkedReply, wait: bool) -> None:
        """Add a response. With `wait` False (WAIT=false) it is sent after the next write, confirmed or not."""
        if not wait:
            self._unwaited.append(entry)
            return
        self.count += entry.sends
        waiting = self._waiting
        end = len(waiting)
        if end > self._head and waiting[end - 1].offset > entry.offset:
            at = self._after(entry.offset)
            # The response belongs to an older record, for example a repeated end of a transaction. At the end of the
            # queue it would imply that everything before it is confirmed.
            entry.deadline = min(entry.deadline, waiting[at].deadline)
            waiting.insert(at, entry)
        else:
            waiting.append(entry)

    def _after(self, offset: i64) -> int:
        """Binary search: index after the last reply whose offset is at most `offset`."""
        low, high = self._head, len(self._waiting)
        while low < high:
            middle = (low + high) // 2
            if self._waiting[middle].offset <= offset:
                low = middle + 1
            else:
                high = middle
        return low

    def take_unwaited(self) -> list[ParkedReply]:
        """Remove and return the responses that wait only for the write of the log."""
        taken = self._unwaited
        if taken:
            self._unwaited = []
        return taken

    def take_confirmed(self, limit: i64) -> list[ParkedReply]:
        """Remove and return the responses whose records all end at or below `limit`."""
        waiting = self._waiting
        head = self._head
        count = len(waiting)
        if head == 0 and count > 0 and waiting[count - 1].offset <= limit:
            self._waiting = []  # common case: all responses of a turn, without copying
            self.count = 0
            return waiting
        stop = head
        while stop < count and waiting[stop].offset <= limit:
            stop += 1
        taken = waiting[head:stop]
        self._drop_to(stop)
        return taken

    def take_late(self, now: int) -> list[ParkedReply]:
        """Remove and return the responses whose deadline has passed."""
        waiting = self._waiting
        stop = self._head
        while stop < len(waiting) and waiting[stop].deadline <= now:
            stop += 1
        taken = waiting[self._head : stop]
        self._drop_to(stop)
        return taken

    def take_beyond(self, written: i64) -> list[ParkedReply]:
        """Remove and return the responses whose records were not written to the log."""
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
        """Remove and return all responses, because the log has failed."""
        taken = self._waiting[self._head :] + self._unwaited
        self._waiting = []
        self._unwaited = []
        self._head = 0
        self.count = 0
        return taken

    def next_deadline(self) -> int:
        """Return when `take_late` will have a result, or NO_DEADLINE."""
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
    """Record the durations of completed sends. Return the number of sends.

    `begun` is the deadline (ms) of a send that starts now, so its difference from an entry's deadline is the duration.
    Sends of one turn share a deadline and are counted together.
    """
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
