"""Frames of controller mode (docs/protocol/ha.md 6).

Each frame starts with a state (int32). The slave sends a handshake, and the master responds with the epochs of its log.
Then the slave reports offsets, and each transfer contains the epoch of its bytes and the confirm offset.

A slave of Bolide requests two additional frames in its handshake, with values of the learner flag that RocketMQ
ignores. A `Named` frame precedes the master's response and contains the name of its set: the ids and epochs of two sets
can be equal. A `Held` frame contains the offset up to which all members of the set hold the log, because RocketMQ's
master confirms its whole log unless allAckInSyncStateSet is set. Both are sent only to slaves that request them. To a
master that sent its name, the slave requests the bytes to compare with a frame that acknowledges nothing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from bolide.replication.epochs import Epoch, Epochs
from bolide.replication.errors import EpochsDamaged, NotReplicated
from bolide.replication.frames import MAX_BODY

HANDSHAKE: Final = 1
TRANSFER: Final = 2
HELD: Final = 3
"""State of a `Held` frame, an extension of Bolide."""
NAMED: Final = 4
"""State of a `Named` frame, an extension of Bolide."""
COMPARE: Final = 5
"""State of a slave's request for the bytes from an offset, an extension of Bolide."""
_LEARNER: Final = 1
_WANTS_HELD: Final = 2
_WANTS_NAME: Final = 4
_STATE: Final = struct.Struct(">i")
_HELLO: Final = struct.Struct(">ihhq")
_REPORT: Final = struct.Struct(">iq")
_HELD: Final = struct.Struct(">iq")
_NAMED: Final = struct.Struct(">ii")
_ANSWER: Final = struct.Struct(">iiqi")
_ENTRY: Final = struct.Struct(">iq")
_HEADER: Final = struct.Struct(">iiqiqq")
MOST_EPOCHS: Final = 64 * 1024
"""Maximum number of epochs in a handshake: one election per minute for more than a month."""
MOST_NAME: Final = 4096
"""Maximum size of the name of a set, in bytes."""


class Hello(NamedTuple):
    """Handshake of a slave."""

    slave_id: int
    from_last_file: bool = False
    """Whether an empty slave starts with the newest file instead of the oldest."""
    learner: bool = False
    """Whether the slave never joins the in-sync set."""
    wants_held: bool = False
    """Whether the slave requests `Held` frames. A learner cannot request them."""
    wants_name: bool = False
    """Whether the slave requests a `Named` frame. A learner cannot request it."""


class MasterHello(NamedTuple):
    """Handshake of a master: its epochs and the end of its log."""

    epochs: Epochs
    end: int


class Named(NamedTuple):
    """The master belongs to the set `name`."""

    name: str


class Held(NamedTuple):
    """All members of the set hold the master's log below `offset`."""

    offset: int


class EpochPiece(NamedTuple):
    """Bytes of the master's log, starting at `offset`. Empty for a heartbeat."""

    offset: int
    data: bytes
    epoch: Epoch
    confirm: int


MasterFrame: TypeAlias = MasterHello | EpochPiece | Held | Named
"""A frame of a master."""


def encode_hello(hello: Hello) -> bytes:
    """Encode the handshake of a slave."""
    flag = _LEARNER if hello.learner else _WANTS_HELD * hello.wants_held + _WANTS_NAME * hello.wants_name
    return _HELLO.pack(HANDSHAKE, hello.from_last_file, flag, hello.slave_id)


def encode_report(offset: int) -> bytes:
    """Encode a slave's report: the end of its durable log."""
    return _REPORT.pack(TRANSFER, offset)


def encode_compare(offset: int) -> bytes:
    """Encode a slave's request for the bytes from `offset`, which it compares with its log. Send it only to a master
    that has sent a `Named` frame."""
    return _REPORT.pack(COMPARE, offset)


def encode_named(name: str) -> bytes:
    """Encode a `Named` frame. A master sends it only to slaves that request it, before its handshake."""
    data = name.encode("utf-8", "replace")[:MOST_NAME]
    return _NAMED.pack(NAMED, len(data)) + data


def encode_answer(epochs: Epochs, end: int) -> bytes:
    """Encode the handshake of a master. `end`: end of its log."""
    last = epochs.last
    entries = b"".join(_ENTRY.pack(*entry) for entry in epochs.entries)
    return _ANSWER.pack(HANDSHAKE, len(entries), end, last.number if last is not None else -1) + entries


def encode_held(offset: int) -> bytes:
    """Encode a `Held` frame. A master sends it only to slaves that request it, before a transfer or alone."""
    return _HELD.pack(HELD, offset)


def encode_header(offset: int, size: int, epoch: Epoch, confirm: int) -> bytes:
    """Encode the header of a transfer of `size` bytes, or of a heartbeat if `size` is 0."""
    return _HEADER.pack(TRANSFER, size, offset, epoch.number, epoch.start, confirm)


@dataclass
class Heard:
    """Frames that a slave sent within one read."""

    hello: Hello | None = None
    """The first handshake, if any."""
    report: int | None = None
    """Offset of the last report, or of the last request for bytes to compare, if any."""
    compares: bool = False
    """Whether `report` only requests bytes to compare."""


class HearingReader:
    """Decodes the frames of a slave. Buffers less than one frame."""

    def __init__(self) -> None:
        self._rest = b""
        self._reported = False

    def receive(self, data: bytes) -> Heard:
        """Return the frames that are complete after `data`. Raises `NotReplicated`."""
        data = self._rest + data
        heard, at = Heard(), 0
        while len(data) - at >= _STATE.size:
            state: int = _STATE.unpack_from(data, at)[0]
            if state not in (HANDSHAKE, TRANSFER, COMPARE) or (state == HANDSHAKE and self._reported):
                raise NotReplicated(f"it sends the invalid state {state}: it is not a slave in controller mode")
            size = _HELLO.size if state == HANDSHAKE else _REPORT.size
            if len(data) - at < size:
                break
            if state == HANDSHAKE:
                self._hello(data, at, heard)
            else:
                heard.report, heard.compares = self._report(data, at), state == COMPARE
            at += size
        self._rest = data[at:]
        return heard

    def _hello(self, data: bytes, at: int, heard: Heard) -> None:
        _, last_file, flag, slave_id = _HELLO.unpack_from(data, at)
        if slave_id < 0:
            raise NotReplicated(f"it says that its id is {slave_id}; a controller gives 1 and above")
        wants = flag if flag > _LEARNER else 0
        heard.hello = heard.hello or Hello(
            slave_id, last_file == 1, flag == _LEARNER, bool(wants & _WANTS_HELD), bool(wants & _WANTS_NAME)
        )

    def _report(self, data: bytes, at: int) -> int:
        offset: int = _REPORT.unpack_from(data, at)[1]
        if offset < 0:
            raise NotReplicated(f"it reports the offset {offset}; only 0 and above exist")
        self._reported = True
        return offset


class SendingReader:
    """Decodes the frames of a master: one handshake, then transfers. Returns their bytes as they arrive."""

    def __init__(self, wants_held: bool = False, wants_name: bool = False) -> None:
        self._rest = b""
        self._wants_held = wants_held
        self._wants_name = wants_name
        self._answered = False
        self._left = 0
        self._at = 0
        self._epoch = Epoch(0, 0)
        self._confirm = 0

    def receive(self, data: bytes) -> list[MasterFrame]:
        """Return the received frames in order. Raises `NotReplicated`."""
        found: list[MasterFrame] = []
        if self._left == 0:
            data = self._rest + data
        at = 0
        while at < len(data):
            if self._left:
                body = data[at : at + self._left]
                found.append(EpochPiece(self._at, body, self._epoch, self._confirm))
                self._at += len(body)
                self._left -= len(body)
                at += len(body)
                continue
            used = self._frame(data, at, found)
            if used == 0:
                break
            at += used
        self._rest = data[at:]
        return found

    def _frame(self, data: bytes, at: int, found: list[MasterFrame]) -> int:
        """Decode a handshake or a header. Return its size, or 0 if it is incomplete."""
        if len(data) - at < _STATE.size:
            return 0
        state: int = _STATE.unpack_from(data, at)[0]
        if state == HELD and self._answered and self._wants_held:
            return self._held(data, at, found)
        if state == NAMED and not self._answered and self._wants_name:
            return self._named(data, at, found)
        if state != (TRANSFER if self._answered else HANDSHAKE):
            raise NotReplicated(f"it sends the invalid state {state}: it is not a master in controller mode")
        return self._header(data, at, found) if self._answered else self._answer(data, at, found)

    def _answer(self, data: bytes, at: int, found: list[MasterFrame]) -> int:
        if len(data) - at < _ANSWER.size:
            return 0
        _, size, end, _last = _ANSWER.unpack_from(data, at)
        if size < 0 or size % _ENTRY.size or size > MOST_EPOCHS * _ENTRY.size or end < 0:
            raise NotReplicated(f"its handshake has {size} bytes of epochs and the end {end}, outside the limits")
        whole: int = _ANSWER.size + size
        if len(data) - at < whole:
            return 0
        try:
            epochs = Epochs(Epoch(*entry) for entry in _ENTRY.iter_unpack(data[at + _ANSWER.size : at + whole]))
        except EpochsDamaged as error:
            raise NotReplicated(f"its epochs are not valid: {error}") from error
        self._answered = True
        found.append(MasterHello(epochs, end))
        return whole

    def _named(self, data: bytes, at: int, found: list[MasterFrame]) -> int:
        if len(data) - at < _NAMED.size:
            return 0
        size: int = _NAMED.unpack_from(data, at)[1]
        if not 0 <= size <= MOST_NAME:
            raise NotReplicated(f"it sent a name of {size} bytes for its set; at most {MOST_NAME} are allowed")
        whole: int = _NAMED.size + size
        if len(data) - at < whole:
            return 0
        self._wants_name = False
        found.append(Named(data[at + _NAMED.size : at + whole].decode("utf-8", "replace")))
        return whole

    def _held(self, data: bytes, at: int, found: list[MasterFrame]) -> int:
        if len(data) - at < _HELD.size:
            return 0
        offset: int = _HELD.unpack_from(data, at)[1]
        if offset < 0:
            raise NotReplicated(f"it sent {offset} as the offset that the set holds; offsets are 0 or more")
        found.append(Held(offset))
        return _HELD.size

    def _header(self, data: bytes, at: int, found: list[MasterFrame]) -> int:
        if len(data) - at < _HEADER.size:
            return 0
        _, size, self._at, number, start, self._confirm = _HEADER.unpack_from(data, at)
        if self._at < 0 or not 0 <= size <= MAX_BODY:
            raise NotReplicated(f"it sends {size} bytes at offset {self._at}, which is outside the limits")
        self._epoch = Epoch(number, start)
        self._left = size
        if size == 0:
            found.append(EpochPiece(self._at, b"", self._epoch, self._confirm))
        return _HEADER.size
