"""Compares the units of a window's records with the records. Part of the scrub."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bolide.dispatch.row import Dispatch, dispatch_at
from bolide.layout.errors import LayoutError
from bolide.layout.ext_unit import MIN_UNIT_SIZE, ext_offset, is_ext_address, read_ext_size, read_ext_unit
from bolide.layout.queue_unit import PRE_BLANK_SIZE, UNIT_SIZE, read_unit
from bolide.layout.record import GOOD, MIN_RECORD_SIZE, check_record
from bolide.layout.shape import StoreShape
from bolide.store.disk.segments import segment_name
from bolide.store.offline.verify_queue import place_fault, tags_fault
from bolide.store.scrub.finding import Damage, DamageKind
from bolide.store.scrub.log_scan import LONGEST
from bolide.store.scrub.paced_reader import Gone, PacedReader, Unreadable
from bolide.store.scrub.window import LogWindow

CHUNK_UNITS: Final = 512
MAX_GAP: Final = 4096
"""Maximum number of units between two records of a window that are checked one by one."""

Unit = tuple[int, int, int]


@dataclass
class QueuePart:
    """The records of one queue in a window, and the state of the queue at the start of the scan."""

    topic: str
    queue_id: int
    first: int
    """First unit whose record is in the log."""
    end: int
    """Unit after the last one in the files."""
    with_ext: bool
    records: list[Dispatch]
    next: int
    """Unit after the last unit of earlier windows, or -1."""

    @property
    def path(self) -> str:
        """Folder of the queue, relative to the store."""
        return f"consumequeue/{self.topic}/{self.queue_id}"


class UnitScan:
    """The scan of some queues. `log`: first and last physical offset at which records may be read."""

    def __init__(
        self, root: str, shape: StoreShape, window: LogWindow, parts: list[QueuePart], log: tuple[int, int]
    ) -> None:
        self.parts = parts
        self.findings: list[tuple[QueuePart, int, Damage]] = []
        """Damaged units: the queue, the physical offset of the record, and the finding."""
        self.misplaced: list[tuple[QueuePart, int, str]] = []
        """Records that name a wrong place: the queue, the physical offset, and a sentence."""
        self._root = root
        self._shape = shape
        self._window = window
        self._log = log
        self._held: tuple[int, bytes] = (0, b"")
        self._unread: list[Unreadable] = []
        self._born = -1

    def steps(self, reader: PacedReader) -> Iterator[None]:
        """Check the queues. Yields after each read. Raises `FileFailed`."""
        for part in self.parts:
            self._held, self._unread, self._born = (0, b""), [], -1
            try:
                yield from self._queue(reader, part)
            except Gone as gone:
                offset = int(part.records[0].physical_offset)
                path = gone.path.removeprefix(f"{self._root}/")
                found = Damage(DamageKind.MISSING, path, gone.position, 0, offset, str(gone))
                self.findings.append((part, offset, found))

    def _queue(self, reader: PacedReader, part: QueuePart) -> Iterator[None]:
        for d in sorted(part.records, key=lambda one: one.queue_offset):
            number = int(d.queue_offset)
            if not part.first <= number < part.end:
                self._no_unit(reader, part, d)
                continue
            if 0 <= part.next < number and number - part.next <= MAX_GAP:
                for between in range(max(part.next, part.first), number):
                    self._between(reader, part, between, int(d.physical_offset))
            part.next = max(part.next, number + 1)
            if not self._holds(number):
                self._fill(reader, part, number)
                yield
            self._compare(reader, part, d, number)
            yield

    # -- one unit --

    def _compare(self, reader: PacedReader, part: QueuePart, d: Dispatch, number: int) -> None:
        if self._is_unread(part, number):
            return
        unit = self._unit(number)
        self._window.units += 1
        offset = int(d.physical_offset)
        fault = place_fault(d, unit)
        if fault:
            if not self._names(reader, unit, part, number):
                self._found(part, number, offset, fault)
            elif not self._before_queue(reader, part, offset):
                self.misplaced.append((part, offset, f"the record names a unit of another record: {fault}"))
            return
        tags_code = unit[2]
        if part.with_ext and is_ext_address(tags_code):
            fault, tags_code = self._extension(reader, part, d, ext_offset(tags_code))
        fault = fault or tags_fault(d, tags_code)
        if fault:
            self._found(part, number, offset, fault)

    def _no_unit(self, reader: PacedReader, part: QueuePart, d: Dispatch) -> None:
        """Process a record whose queue offset is not in its queue."""
        offset = int(d.physical_offset)
        if not self._before_queue(reader, part, offset):
            place = f"{part.topic} queue {part.queue_id} has the units {part.first} to {part.end - 1}"
            self.misplaced.append((part, offset, f"the record names queue offset {d.queue_offset}: {place}"))

    def _between(self, reader: PacedReader, part: QueuePart, number: int, before: int) -> None:
        """Check a unit that no record of the window names. `before`: physical offset of the record of a later unit."""
        if not self._holds(number):
            try:
                self._fill(reader, part, number)
            except Gone:
                return  # retention deletes the files of records before the window
        if self._is_unread(part, number):
            return
        offset, size, _ = self._unit(number)
        window = self._window
        # A record that names a unit far ahead leaves units of later windows between.
        elsewhere = size > 0 and (0 <= offset < window.start or window.stop <= offset < self._log[1])
        if size == PRE_BLANK_SIZE or elsewhere or window.is_damaged(offset):
            return
        if window.sizes.get(offset) == size:
            text = f"unit {number} of {part.topic} queue {part.queue_id} points to this record, which names another"
            self.misplaced.append((part, offset, text))
        else:
            self._found(part, number, before, f"the unit says {size} bytes at {offset}, no record of this queue")

    def _found(self, part: QueuePart, number: int, offset: int, sentence: str) -> None:
        path, position = self._place(part, number)
        self.findings.append((part, offset, Damage(DamageKind.UNIT, path, position, UNIT_SIZE, offset, sentence)))

    def _extension(self, reader: PacedReader, part: QueuePart, d: Dispatch, where: int) -> tuple[str, int]:
        """Return why the extension of a unit is wrong, or "", and its tags code."""
        start = where - where % self._shape.consume_queue_ext_segment_size
        path = f"{self._root}/consumequeue_ext/{part.topic}/{part.queue_id}/{segment_name(start)}"
        try:
            size = read_ext_size(reader.read(path, 2, where - start), 0)
            unit = read_ext_unit(reader.read(path, max(size, MIN_UNIT_SIZE), where - start), 0)
        except (LayoutError, Gone) as error:
            return f"the unit's extension at {where} cannot be read: {error}", 0
        if unit.store_timestamp != d.store_timestamp:
            return f"the unit's extension at {where} has another record's store time", 0
        return "", int(unit.tags_code)

    # -- which of the two is wrong --

    def _names(self, reader: PacedReader, unit: Unit, part: QueuePart, number: int) -> bool:
        """Return whether the unit points to an intact record that names this unit."""
        offset, size, _ = unit
        segment = self._shape.commit_log_segment_size
        room = segment - offset % segment
        if not self._log[0] <= offset < self._log[1] or not MIN_RECORD_SIZE <= size <= min(room, LONGEST):
            return False
        path = f"{self._root}/commitlog/{segment_name(offset - offset % segment)}"
        data = reader.read(path, size, offset % segment)
        if check_record(data, 0, size, True).status != GOOD:
            return False
        d = dispatch_at(data, 0, self._shape)
        places = [(d.topic, int(d.queue_id), int(d.queue_offset))]
        places += [(light.topic, part.queue_id, int(light.queue_offset)) for light in d.multi or ()]
        return d.size == size and (part.topic, part.queue_id, number) in places

    def _before_queue(self, reader: PacedReader, part: QueuePart, offset: int) -> bool:
        """Return whether a record is older than its queue: the topic was deleted and created again without a
        tombstone."""
        if part.first >= part.end:
            return True
        if self._born < 0:
            held = self._held
            try:
                self._fill(reader, part, part.first)
            except Gone:
                return True  # retention has deleted the file of the first unit since the scan was planned
            self._born = self._unit(part.first)[0]
            self._held = held
        return offset < self._born

    # -- units in memory --

    def _holds(self, number: int) -> bool:
        return self._held[0] <= number < self._held[0] + len(self._held[1]) // UNIT_SIZE

    def _unit(self, number: int) -> Unit:
        return read_unit(self._held[1], (number - self._held[0]) * UNIT_SIZE)

    def _fill(self, reader: PacedReader, part: QueuePart, number: int) -> None:
        per_file = self._shape.consume_queue_segment_size // UNIT_SIZE
        count = min(CHUNK_UNITS, part.end - number, per_file - number % per_file)
        path, position = self._place(part, number)
        self._held = number, reader.read(f"{self._root}/{path}", count * UNIT_SIZE, position)
        for lost in reader.take_unreadable():
            self._unread.append(lost)
            offset = int(part.records[0].physical_offset)
            found = Damage(DamageKind.UNREADABLE, path, lost.position, lost.size, offset, lost.reason)
            self.findings.append((part, offset, found))

    def _is_unread(self, part: QueuePart, number: int) -> bool:
        if not self._unread:
            return False
        path, position = self._place(part, number)
        return any(
            f"{self._root}/{path}" == lost.path
            and lost.position < position + UNIT_SIZE
            and position < lost.position + lost.size
            for lost in self._unread
        )

    def _place(self, part: QueuePart, number: int) -> tuple[str, int]:
        size = self._shape.consume_queue_segment_size
        position = number * UNIT_SIZE
        return f"{part.path}/{segment_name(position - position % size)}", position % size
