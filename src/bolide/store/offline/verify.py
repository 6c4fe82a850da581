"""Verifies a store: every record, every queue unit and every index entry, each checked against the others.

The log is read once, in order. The unit of each record is looked up in its queue and marked. Units that remain unmarked
do not refer to a record. Index entries are in log order, so they are read in parallel. Needs memory for one byte per
unit, one int32 per index slot, and one chunk of the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bolide.dispatch.multi import is_lmq, is_place
from bolide.dispatch.row import Dispatch, in_light_queue, in_queue
from bolide.errors import BolideError
from bolide.layout.checkpoint import Checkpoint
from bolide.layout.deleted_topics import NAME as DELETED_TOPICS
from bolide.layout.deleted_topics import parse_marks
from bolide.layout.errors import LayoutError
from bolide.layout.shape import StoreShape
from bolide.store.disk.files import Files
from bolide.store.disk.format_stamp import check_format
from bolide.store.offline.inspect import queue_folders, read_checkpoint
from bolide.store.offline.verify_index import IndexCheck
from bolide.store.offline.verify_queue import QueueCheck
from bolide.store.offline.walk import End, Problem, SegmentFile, segment_files, strange_names, walk_segment

_PENDING = 200_000
"""Number of records that are buffered before their units are checked, so that units are read in long ranges."""
_MAX_NOTES = 100


@dataclass(frozen=True)
class Finding:
    """An inconsistency that RocketMQ would not leave, at byte `position` of `path`: a file, or a folder of segments."""

    path: str
    position: int
    sentence: str


@dataclass
class Verdict:
    """Result of `verify_store`. `notes` are informational: problems that a start of the broker repairs
    automatically."""

    records: int = 0
    units: int = 0
    ext_units: int = 0
    index_entries: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether there are no findings."""
        return not self.findings


def verify_store(files: Files, root: str, shape: StoreShape) -> Verdict:
    """Check a store folder that no broker uses, without changing it. Raises `StoreTooNew`."""
    check_format(files, root)
    verdict = Verdict()
    running = files.size(f"{root}/abort") >= 0
    if running:
        verdict.notes.append("abort is there: the store was not stopped cleanly, or a broker runs on it now")
    segments = segment_files(files, f"{root}/commitlog")
    _check_segments(files, f"{root}/commitlog", segments, shape.commit_log_segment_size, verdict)
    check = _LogCheck(files, root, shape, verdict)
    for number, file in enumerate(segments):
        check.segment(file, last=number == len(segments) - 1)
    check.finish(running)
    try:
        checkpoint = read_checkpoint(files, root)
        if checkpoint is None:
            verdict.notes.append("there is no checkpoint: the next start reads the whole log")
        else:
            _check_checkpoint(f"{root}/checkpoint", checkpoint, check, running, verdict)
    except BolideError as error:
        _find(verdict, f"{root}/checkpoint", 0, str(error))
    return verdict


def _check_checkpoint(path: str, checkpoint: Checkpoint, check: _LogCheck, running: bool, verdict: Verdict) -> None:
    for position, sentence in checkpoint.offset_faults(check.end_offset):
        _find(verdict, path, position, sentence)
    for position, sentence in checkpoint.time_faults(check.newest) if check.newest >= 0 else ():
        if running:
            verdict.notes.append(f"the checkpoint may be newer than what was read: {sentence}")
        else:
            _find(verdict, path, position, sentence)


class _LogCheck:
    """Walks the log and feeds the checks of queues and index."""

    def __init__(self, files: Files, root: str, shape: StoreShape, verdict: Verdict) -> None:
        self.end_offset = 0
        self.newest = -1
        """Newest store time of a record in ms, or -1 if there are no records."""
        self._verdict = verdict
        self._files = files
        self._shape = shape
        self._root = root
        self._first_offset = -1
        self._next: dict[tuple[str, int], int] = {}
        self._pending: dict[tuple[str, int], list[Dispatch]] = {}
        self._pending_count = 0
        self._queues: dict[tuple[str, int], QueueCheck] = {}
        self._ended = False
        marks = f"{root}/{DELETED_TOPICS}"
        self._deleted: dict[str, int] = {}
        try:
            self._deleted = parse_marks(files.read_file(marks) or b"")
        except LayoutError as error:
            _find(verdict, marks, 0, str(error))
        light = 0
        for topic, queue_id, path in queue_folders(files, root):
            if is_lmq(topic) and not shape.multi_dispatch:
                light += 1
                continue
            with_ext = shape.enable_consume_queue_ext and not is_lmq(topic)
            ext = f"{root}/consumequeue_ext/{topic}/{queue_id}" if with_ext else ""
            found = segment_files(files, path)
            _check_segments(files, path, found, shape.consume_queue_segment_size, verdict)
            if ext:
                ext_files = segment_files(files, ext)
                _check_segments(files, ext, ext_files, shape.consume_queue_ext_segment_size, verdict)
            self._queues[topic, queue_id] = QueueCheck(files, path, ext, shape)
        if light:
            verdict.notes.append(
                f"{light} light queues (LMQ) are not checked: the settings given have not both enableLmq and "
                "enableMultiDispatch"
            )
        self._index = IndexCheck(files, f"{root}/index", shape)

    def segment(self, file: SegmentFile, last: bool) -> None:
        """Check one CommitLog file."""
        if self._first_offset < 0:
            self._first_offset = self.end_offset = file.start
        empty = True
        for step in walk_segment(self._files, file, self._shape, check_crc=True):
            if isinstance(step, Problem):
                empty = False
                _find(self._verdict, file.path, step.physical_offset - file.start, step.sentence)
            elif isinstance(step, End):
                self._end_of_segment(file, step, empty, last)
            else:
                empty = False
                self._records(file, step.physical_offset, step.dispatches)

    def finish(self, running: bool) -> None:
        """Process pending records, and collect surplus and missing entries from queues and index."""
        self._flush()
        for key, queue in sorted(self._queues.items()):
            queue.finish(self._first_offset, self.end_offset)
            self._take(queue.path, queue.findings)
            self._missing(f"{key[0]} queue {key[1]}", queue.path, queue.missing, queue.missing_tail, running)
            self._verdict.units += queue.matched
            self._verdict.ext_units += queue.ext_matched
        index = self._index
        index.finish(self._first_offset, self.end_offset)
        for path, position, sentence in index.findings:
            _find(self._verdict, path, position, sentence)
        self._missing("the index", f"{self._root}/index", index.missing, index.missing_tail, running)
        self._verdict.notes += index.notes
        self._verdict.index_entries = index.entries

    def _missing(self, what: str, path: str, missing: list[int], tail: int, running: bool) -> None:
        inside = len(missing) - tail
        if inside:
            _find(self._verdict, path, 0, f"{what} lacks {inside} records of the log, the first at {missing[0]}")
        if tail:
            sentence = f"{what} does not have the last {tail} records yet, from {missing[inside]} on"
            if running:
                self._verdict.notes.append(sentence + ": the next start dispatches them")
            else:
                _find(self._verdict, path, 0, sentence)

    def _take(self, path: str, findings: list[tuple[int, str]]) -> None:
        for position, sentence in findings:
            _find(self._verdict, path, position, sentence)

    def _records(self, file: SegmentFile, at: int, dispatches: list[Dispatch]) -> None:
        verdict = self._verdict
        verdict.records += len(dispatches)
        if self._ended:
            _find(verdict, file.path, 0, "records go on here, but the file before ends with no blank")
            self._ended = False
        deleted = self._deleted
        for d in dispatches:
            if d.physical_offset != at:
                _find(
                    verdict, file.path, at - file.start, f"the record calls itself {d.physical_offset}, but it is {at}"
                )
            at += d.size
            self.newest = max(self.newest, d.store_timestamp)
            self._index.expect(d)
            if in_queue(d):
                if not is_place(d.topic, d.queue_id):
                    self._placeless(d)
                elif d.physical_offset >= deleted.get(d.topic, 0):
                    self._expect_unit(file, d)
                for light in d.multi or ():
                    if d.physical_offset >= deleted.get(light.topic, 0):
                        self._expect_unit(file, in_light_queue(d, light))
        self.end_offset = at
        self._pending_count += len(dispatches)
        if self._pending_count >= _PENDING:
            self._flush()

    def _placeless(self, d: Dispatch) -> None:
        """Note a record that no queue of the store can contain. A broker also skips it."""
        if len(self._verdict.notes) < _MAX_NOTES:
            sentence = f"the record at offset {d.physical_offset} of the log is in no queue: its topic {d.topic[:64]!r}"
            self._verdict.notes.append(f"{sentence} with queue {d.queue_id} cannot name a folder")

    def _expect_unit(self, file: SegmentFile, d: Dispatch) -> None:
        key = (d.topic, int(d.queue_id))
        wanted = self._next.get(key, d.queue_offset)
        if d.queue_offset != wanted:
            kind = "is used again" if d.queue_offset < wanted else f"follows {wanted - 1}: there is a gap"
            sentence = f"{d.topic} queue {d.queue_id}: queue offset {d.queue_offset} {kind}"
            _find(self._verdict, file.path, d.physical_offset - file.start, sentence)
        self._next[key] = max(wanted, d.queue_offset + 1)
        self._pending.setdefault(key, []).append(d)

    def _end_of_segment(self, file: SegmentFile, end: End, empty: bool, last: bool) -> None:
        if end.blank:
            if file.start + file.size > self.end_offset:
                self.end_offset = file.start + file.size
        elif not empty and not last:
            # A file without a blank record ends the log. A broker keeps one empty file ahead, so that alone is not an
            # error.
            self._ended = True

    def _flush(self) -> None:
        for key, dispatches in self._pending.items():
            queue = self._queues.get(key)
            if queue is None:
                path = f"{self._root}/consumequeue/{key[0]}/{key[1]}"
                queue = self._queues[key] = QueueCheck(self._files, path, "", self._shape)
            queue.expect(dispatches)
        self._pending = {}
        self._pending_count = 0


def _check_segments(files: Files, folder: str, found: list[SegmentFile], size: int, verdict: Verdict) -> None:
    for name in strange_names(files, folder):
        _find(verdict, f"{folder}/{name}", 0, "the name is not a start offset of 20 digits")
    expected = found[0].start if found else 0
    for file in found:
        if file.size != size:
            _find(verdict, file.path, 0, f"it has {file.size} bytes, a file of this store has {size}")
        if file.start != expected:
            _find(verdict, file.path, 0, f"it begins at {file.start}, the file before ends at {expected}")
        expected = file.start + size


def _find(verdict: Verdict, path: str, position: int, sentence: str) -> None:
    verdict.findings.append(Finding(path, int(position), sentence))
