"""A slave's side of its connection in the auto-switch mode (docs/protocol/ha.md 6, AutoSwitchHAClient.java).

The master's epochs say up to where both logs are the same. The session names that offset, the owner of the store cuts
the log there and says so, and only then does it report. Java also follows a master whose frames contradict the epochs
that were agreed on; here such a connection ends with the offset.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bolide.replication.epochs import Epochs
from bolide.replication.errors import NotReplicated
from bolide.replication.master import Pace
from bolide.replication.switch_frames import EpochPiece, Hello, MasterHello, SendingReader, encode_hello, encode_report


@dataclass
class Arrived:
    """What is to be done with what arrived, in this order."""

    cut: int = -1
    """Cut the own log here, then call `cut_done`; -1 for nothing to do. Nothing else arrives with it."""
    runs: list[tuple[Epochs | None, int, bytes]] = field(default_factory=list)
    """Keep these epochs, if there are any, then append the bytes at the offset."""


class SwitchSlave:
    """One connection. `end` and `epochs` are those of the own log, of which the set confirmed what is below
    `confirmed`; `now` is ms."""

    def __init__(
        self, hello: Hello, end: int, epochs: Epochs, file_size: int, pace: Pace, now: int, confirmed: int = 1
    ) -> None:
        """Raises `NotReplicated` when the own log has bytes of no epoch: nobody can say what it has in common."""
        if end > 0 and epochs.last is None:
            raise NotReplicated(
                f"this log has no epochs, and ends at {end}: nothing says what it has in common with the master's; "
                f"delete this store, so that it begins with a copy"
            )
        self._hello = hello
        self._end = end
        self._epochs = epochs
        self._confirmed = confirmed
        self._file_size = file_size
        self._pace = pace
        self._reader = SendingReader()
        self._heard_at = self._said_at = now
        self._reported = -1
        self._answered = False
        self.follows = False
        """True once the own log is the front of the master's."""
        self.confirm = 0
        """Up to here the set confirms the master's log, as it said last; the own end caps it."""

    @property
    def end(self) -> int:
        """Where the log ends with what was returned so far."""
        return self._end

    def hello(self, now: int) -> bytes:
        """The handshake."""
        self._said_at = now
        return encode_hello(self._hello)

    def received(self, data: bytes, now: int) -> Arrived:
        """Bytes from the master. Raises `NotReplicated`, with nothing to append of them."""
        self._heard_at = now
        arrived = Arrived()
        epochs, end, confirm = self._epochs, self._end, self.confirm
        for found in self._reader.receive(data):
            if isinstance(found, MasterHello):
                arrived.cut = self._common(found)
                self._answered = True
                continue
            if not self.follows:
                raise NotReplicated(f"it sends offset {found.offset} before anything was reported")
            confirm = found.confirm
            if not found.data and end == 0:
                continue  # a heartbeat before the first bytes
            begun = self._begun(found, epochs, end)
            epochs = begun or epochs
            if found.data:
                end = found.offset + len(found.data)
                self._add(arrived.runs, begun, found)
            elif begun is not None:
                arrived.runs.append((begun, found.offset, b""))
        self._epochs, self._end, self.confirm = epochs, end, confirm
        return arrived

    def _add(self, runs: list[tuple[Epochs | None, int, bytes]], begun: Epochs | None, part: EpochPiece) -> None:
        if begun is None and runs:
            known, offset, before = runs[-1]
            runs[-1] = (known, offset, before + part.data)
        else:
            runs.append((begun, part.offset, part.data))

    def _common(self, answer: MasterHello) -> int:
        if self._end == 0:
            return 0
        common = self._epochs.common_end(self._end, answer.epochs, answer.end)
        if common < 0 and self._confirmed == 0 and answer.epochs.begin == 0:
            # A first master that was lost before a slave had a byte: nobody was answered for what is here.
            return 0
        if common < 0:
            raise NotReplicated(
                f"its log and this one, which ends at {self._end}, have no epoch in common: this one does not follow; "
                f"delete this store, so that it begins with a copy"
            )
        return common

    def cut_done(self, end: int, now: int) -> bytes:
        """The own log ends here now, at the offset that `cut` named, and so do its epochs; the first report."""
        self._end = end
        self._epochs = self._epochs.cut_at(end)
        self.follows = True
        self._reported = end
        self._said_at = now
        return encode_report(end)

    def _begun(self, part: EpochPiece, epochs: Epochs, end: int) -> Epochs | None:
        """The epochs with that of this part, when it is new."""
        if end != 0 and part.offset != end:
            raise NotReplicated(f"it sends offset {part.offset}, but this log ends at {end}: it is another log")
        if end == 0 and part.offset % self._file_size != 0:
            raise NotReplicated(
                f"it begins at offset {part.offset}, where no file begins with mappedFileSizeCommitLog = "
                f"{self._file_size} bytes: set the size that it has"
            )
        epoch, last = part.epoch, epochs.last
        if epoch == last:
            return None
        begins_here = epoch.start == part.offset or (last is None and 0 <= epoch.start <= part.offset)
        if not begins_here:
            known = f"epoch {last.number} from {last.start}" if last is not None else "none"
            raise NotReplicated(
                f"it sends offset {part.offset} as of epoch {epoch.number} from {epoch.start}, but the last one known "
                f"here is {known}: its epochs are not those that it named"
            )
        return epochs.begun(epoch.number, epoch.start)

    def say(self, kept: int, now: int) -> bytes:
        """What is due: the handshake once more while it is not answered, the report of `kept`, the end of what this
        slave keeps, or nothing."""
        waited = now - self._said_at > self._pace.heartbeat
        if not self.follows:
            return self.hello(now) if waited and not self._answered else b""
        if kept <= self._reported and not waited:
            return b""
        self._reported = kept
        self._said_at = now
        return encode_report(kept)

    def silent(self, now: int) -> bool:
        """True when the master was not heard for so long that it is gone."""
        return now - self._heard_at > self._pace.silence

    def due(self) -> int:
        """When `silent` or `say` is to be asked next."""
        return min(self._heard_at + self._pace.silence + 1, self._said_at + self._pace.heartbeat + 1)
