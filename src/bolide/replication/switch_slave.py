"""A slave's side of its connection in controller mode (docs/protocol/ha.md 6, AutoSwitchHAClient.java).

The epochs of both logs determine the offset where they diverge. RocketMQ truncates the slave's log there. This session
first checks four things: the master belongs to the slave's set, its last epoch is the one that the controller named,
its log contains everything that the set is known to hold, and the last bytes before the offset are the same in both
logs. For the last check, it requests these bytes again. Then it returns the offset, its caller truncates the log, and
the session sends its first report. RocketMQ also accepts a master whose frames contradict its handshake. This session
raises an error.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bolide.replication.epochs import Epochs
from bolide.replication.errors import LogKept, NotReplicated
from bolide.replication.pacing import Pace
from bolide.replication.slave import check_first, compare_from, first_difference
from bolide.replication.switch_frames import (
    EpochPiece,
    Held,
    Hello,
    MasterFrame,
    MasterHello,
    Named,
    SendingReader,
    encode_compare,
    encode_hello,
    encode_report,
)

COMPARED: Final = 1024 * 1024
"""Maximum number of bytes to compare before the common end, all in one file."""


class OwnLog(NamedTuple):
    """The log of the slave. Offsets are physical offsets."""

    end: int
    epochs: Epochs
    file_size: int
    held: int = 0
    """Offset below which all members of the set are known to hold the log (`HeldBySet`)."""
    begin: int = 0


@dataclass
class Arrived:
    """Actions that the caller must take after received bytes, in the order of the fields."""

    compare: tuple[int, int] | None = None
    """Read the slave's log between these offsets and pass the bytes to `comparing`. Other fields are unset."""
    cut: int = -1
    """Truncate the slave's log here, then call `cut_done`, then `received` without bytes. -1 if no truncation is
    needed. Other fields are unset."""
    runs: list[tuple[Epochs | None, int, bytes]] = field(default_factory=list)
    """For each run: store the epochs, if any, then append the bytes at the offset."""


class SwitchSlave:
    """One connection. `own`: the slave's log at connection time; `epoch`: the epoch whose master the controller named;
    `now` is ms."""

    def __init__(
        self,
        hello: Hello,
        own: OwnLog,
        epoch: int,
        pace: Pace,
        now: int,
        all_confirm: bool = False,
        set_name: str = "",
    ) -> None:
        """`all_confirm`: whether allAckInSyncStateSet is set, so that the master confirms only bytes that all members
        hold. `set_name`: name of the slave's set, compared with the name that a master sends.

        Raises `LogKept` if the slave's log has bytes but no epochs.
        """
        if own.end > 0 and own.epochs.last is None:
            raise LogKept(f"this log has no epochs, and ends at {own.end}: what both have in common is unknown", 0)
        self._hello = hello
        self._own = own
        self._epoch = epoch
        self._end = own.end
        self._epochs = own.epochs
        self._pace = pace
        self._all_confirm = all_confirm
        self._set_name = set_name
        self._named = False
        """Whether the master has sent the name of this set."""
        self._reader = SendingReader(hello.wants_held, hello.wants_name)
        self._waiting: deque[MasterFrame] = deque()
        """Received frames to handle after the truncation."""
        self._heard_at = self._said_at = now
        self._reported = -1
        self._answered = False
        self._tail = b""
        """The slave's bytes to compare."""
        self._at = self._common = 0
        self._patience = pace.heartbeat * 5 // 2
        self._compared_by = 0
        """Deadline in ms for the next bytes of the master to compare."""
        self.follows = False
        """Whether the slave's log is a prefix of the master's log."""
        self.confirm = 0
        """Last confirm offset of the master. It may exceed the end of the slave's log."""
        self.held = 0
        """Offset up to which all members of the set hold the log, according to the master. Not valid above the end of
        the slave's log."""

    @property
    def end(self) -> int:
        """End offset of the log, including the bytes returned so far."""
        return self._end

    def hello(self, now: int) -> bytes:
        """Return the handshake."""
        self._said_at = now
        return encode_hello(self._hello)

    def received(self, data: bytes, now: int) -> Arrived:
        """Process bytes from the master and return the actions to take. If this raises `NotReplicated`, the caller must
        append none of the bytes."""
        self._heard_at = now
        arrived = Arrived()
        epochs, end = self._epochs, self._end
        self._waiting.extend(self._reader.receive(data))
        while self._waiting and arrived.cut < 0 and arrived.compare is None:
            found = self._waiting.popleft()
            if isinstance(found, Named):
                self._check_set(found.name)
                continue
            if isinstance(found, MasterHello):
                self._agree(found, arrived)
                if self._waiting:
                    raise NotReplicated("it sends parts of its log before anything was reported")
                continue
            if isinstance(found, Held):
                self.held = found.offset
                continue
            if self._tail:
                arrived.cut = self._compare(found, now)
                continue
            self.confirm = found.confirm
            if self._all_confirm:
                self.held = max(self.held, found.confirm)
            if not found.data and end == 0:
                continue  # a heartbeat before the first bytes
            begun = self._begun(found, epochs, end)
            epochs = begun or epochs
            if found.data:
                end = found.offset + len(found.data)
                self._add(arrived.runs, begun, found)
            elif begun is not None:
                arrived.runs.append((begun, found.offset, b""))
        self._epochs, self._end = epochs, end
        return arrived

    def _add(self, runs: list[tuple[Epochs | None, int, bytes]], begun: Epochs | None, part: EpochPiece) -> None:
        if begun is None and runs:
            known, offset, before = runs[-1]
            runs[-1] = (known, offset, before + part.data)
        else:
            runs.append((begun, part.offset, part.data))

    # -- what both logs have in common

    def _check_set(self, name: str) -> None:
        """Raise `NotReplicated` if the master belongs to another set, whose ids and epochs may be the same."""
        if name != self._set_name:
            raise NotReplicated(
                f"it is a master of the set {name}, but this replica belongs to the set {self._set_name}: correct "
                "brokerIP2 or haListenPort of the replica's master, or the route to it"
            )
        self._named = True

    def _agree(self, answer: MasterHello, arrived: Arrived) -> None:
        """Set the range to compare, or the offset to truncate at. Raises `NotReplicated`."""
        self._answered = True
        last, own = answer.epochs.last, self._own
        if last is None or last.number != self._epoch:
            raise NotReplicated(
                f"the controller named the master of epoch {self._epoch}, but the last epoch of its log is "
                f"{last.number if last is not None else 'none'}: it is another broker, or no longer the master"
            )
        self._common = common = self._common_end(answer)
        if common < own.held:
            raise LogKept(
                f"its log and this log agree up to offset {common}, but the set has confirmed this log up to "
                f"{own.held}: this replica does not truncate its log",
                common,
            )
        begin = compare_from(own.begin, common, COMPARED, own.file_size)
        if common <= own.begin or begin >= common:
            arrived.cut = common
        else:
            arrived.compare = (begin, common)

    def _common_end(self, answer: MasterHello) -> int:
        own = self._own
        if own.end == 0:
            return 0
        common = own.epochs.common_end(own.end, answer.epochs, answer.end)
        if common < 0 and own.held == 0 and answer.epochs.begin == 0:
            # The first master was lost before another member had these bytes, so no send of them was acknowledged.
            return 0
        if common < 0:
            raise LogKept(f"its log and this log, which ends at {own.end}, have no epoch in common", 0)
        return common

    def comparing(self, tail: bytes, now: int) -> bytes:
        """Start to compare `tail`, the slave's bytes up to the common end. Return the report that requests the master's
        bytes."""
        self._tail = tail
        self._at = self._reported = self._common - len(tail)
        self._said_at = now
        self._compared_by = now + self._patience
        return self._request()

    def _request(self) -> bytes:
        """Return the frame that requests the bytes to compare. Masters of RocketMQ know only reports."""
        return encode_compare(self._reported) if self._named else encode_report(self._reported)

    def _compare(self, part: EpochPiece, now: int) -> int:
        """Return the offset to truncate at if all bytes have been compared, otherwise -1. Raises `LogKept` at the first
        difference."""
        if part.offset != self._at:
            raise NotReplicated(
                f"it sends offset {part.offset} instead of the requested {self._at}: it has a different log"
            )
        if not part.data:
            return -1
        begin = self._at - (self._common - len(self._tail))
        own = self._tail[begin : begin + len(part.data)]
        differs = first_difference(own, part.data)
        if differs >= 0:
            at = self._at + differs
            raise LogKept(
                f"its log and this log differ at offset {at}, although their epochs agree up to {self._common}: one "
                "log was damaged or edited; this replica does not truncate its log",
                at,
            )
        self._at += len(own)
        self._compared_by = now + self._patience
        if self._at < self._common:
            return -1
        self._tail = b""
        rest = part.data[len(own) :]
        if rest:
            self._waiting.appendleft(part._replace(offset=self._common, data=rest))
        return self._common

    def check(self, now: int) -> None:
        """Raise `NotReplicated` if the master does not send the bytes to compare in time."""
        if self._tail and now >= self._compared_by:
            raise NotReplicated(
                f"it does not send the bytes from offset {self._at} to {self._common} to compare with this log, "
                "perhaps because they were deleted: delete this store, so that it starts with a copy"
            )

    def cut_done(self, end: int, now: int) -> bytes:
        """Called when the slave's log has been truncated to `end`. Truncates the epochs and returns the first
        report."""
        self._end = end
        self._epochs = self._epochs.cut_at(end)
        self.follows = True
        self._reported = end
        self._said_at = now
        return encode_report(end)

    def _begun(self, part: EpochPiece, epochs: Epochs, end: int) -> Epochs | None:
        """Return the epochs with the epoch of this part added, or None if the epoch is not new."""
        if end != 0 and part.offset != end:
            raise NotReplicated(f"it sends offset {part.offset}, but this log ends at {end}: it has a different log")
        if end == 0:
            check_first(part.offset, self._own.file_size)
        epoch, last = part.epoch, epochs.last
        if epoch == last:
            return None
        begins_here = epoch.start == part.offset or (last is None and 0 <= epoch.start <= part.offset)
        if not begins_here:
            known = f"epoch {last.number} from {last.start}" if last is not None else "none"
            raise NotReplicated(
                f"it sends offset {part.offset} as part of epoch {epoch.number} from {epoch.start}, but the last epoch "
                f"here is {known}: its epochs do not match its handshake"
            )
        return epochs.begun(epoch.number, epoch.start)

    def say(self, kept: int, now: int) -> bytes:
        """Return the frame to send now, or b"" if none is due: a repeated handshake while there is no response, or a
        report. `kept`: end offset of the durable log."""
        waited = now - self._said_at > self._pace.heartbeat
        if not self.follows and not self._tail:
            return self.hello(now) if waited and not self._answered else b""
        if not waited and (self._tail or kept <= self._reported):
            return b""
        self._said_at = now
        if self._tail:
            return self._request()
        self._reported = kept
        return encode_report(kept)

    def silent(self, now: int) -> bool:
        """Return whether the master has been idle for too long and is considered lost."""
        return now - self._heard_at > self._pace.silence

    def due(self) -> int:
        """Return when to call `silent`, `check` or `say` next."""
        at = min(self._heard_at + self._pace.silence + 1, self._said_at + self._pace.heartbeat + 1)
        return min(at, self._compared_by) if self._tail else at
