"""Reports the content of a store folder: segments, records by topic and queue, units, index files, checkpoint, run
marker.

`inspect_store` only reads and reports. The module `verify` checks. Results are dataclasses, for a table or for JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bolide.dispatch.multi import is_lmq
from bolide.errors import PeerError
from bolide.layout.checkpoint import Checkpoint, decode_checkpoint
from bolide.layout.index_file import HEADER_SIZE, decode_index_header, index_file_size
from bolide.layout.queue_unit import PRE_BLANK_SIZE, UNIT_SIZE, read_unit
from bolide.layout.shape import ShapeOptions, StoreShape
from bolide.store.disk.files import Files
from bolide.store.disk.format_stamp import check_format
from bolide.store.offline.walk import End, Problem, Records, SegmentFile, read_whole, segment_files, walk_segment


class NoStore(PeerError):
    """The folder is not a store, or its files do not have the sizes of the settings given."""


@dataclass
class LogSummary:
    """The CommitLog. Offsets are physical, timestamps store times in ms."""

    segments: int = 0
    segment_size: int = 0
    first_offset: int = 0
    end_offset: int = 0
    records: int = 0
    bytes: int = 0
    first_store_timestamp: int = 0
    last_store_timestamp: int = 0
    problems: int = 0


@dataclass
class QueueSummary:
    """One queue: its records in the log, and the content of its files. Offsets are queue offsets."""

    topic: str
    queue_id: int
    records: int = 0
    bytes: int = 0
    segments: int = 0
    units: int = 0
    min_offset: int = 0
    max_offset: int = 0
    ext_segments: int = 0


@dataclass
class IndexSummary:
    """One index file, from its header."""

    name: str
    begin_timestamp: int
    end_timestamp: int
    begin_physical_offset: int
    end_physical_offset: int
    entries: int
    slots_used: int


@dataclass
class StoreSummary:
    """The content of a store folder."""

    root: str
    format: int
    """The number in the file `store-format`, or 0 if the file is missing."""
    abort: bool
    """Whether the run marker exists: a broker is running or did not stop cleanly."""
    checkpoint: Checkpoint | None
    log: LogSummary
    queues: list[QueueSummary] = field(default_factory=list)
    index: list[IndexSummary] = field(default_factory=list)
    config: list[str] = field(default_factory=list)


def shape_of(files: Files, root: str, options: ShapeOptions | None, lost_log: bool = False) -> StoreShape:
    """Return the shape for reading a folder: from its broker's settings, or from the sizes of its files and RocketMQ's
    defaults.

    Raises `NoStore` if the folder has no CommitLog or its files contradict the shape, and `StoreTooNew`. With
    `lost_log`, a folder without a CommitLog is accepted if it has queues or a checkpoint.
    """
    check_format(files, root)  # first: a newer format may have other sizes
    log = segment_files(files, f"{root}/commitlog")
    if not log and not (lost_log and _follows_from_log(files, root)):
        raise NoStore(f"{root} is not a store: there is no CommitLog file in {root}/commitlog")
    log_size = log[0].size if log else ShapeOptions().mapped_file_size_commit_log
    shape = StoreShape.of(options) if options is not None else _shape_of_files(files, root, log_size)
    size = index_file_size(shape.index_slots, shape.index_entries)
    for name in files.list_dir(f"{root}/index"):
        found = files.size(f"{root}/index/{name}")
        if found != size:
            raise NoStore(
                f"{root}/index/{name} has {found} bytes where {shape.index_slots} slots and {shape.index_entries} "
                f"entries take {size}: give the store's broker.conf with --config"
            )
    return shape


def _follows_from_log(files: Files, root: str) -> bool:
    return files.size(f"{root}/checkpoint") >= 0 or bool(files.list_dir(f"{root}/consumequeue"))


def _shape_of_files(files: Files, root: str, log_size: int) -> StoreShape:
    default = ShapeOptions()
    queue, ext = _first_segment(files, f"{root}/consumequeue"), _first_segment(files, f"{root}/consumequeue_ext")
    light = any(is_lmq(topic) for topic in files.list_dir(f"{root}/consumequeue"))
    options = ShapeOptions(
        mapped_file_size_commit_log=log_size,
        # Rounded up like the setting: a copy of a queue file may end within an entry.
        mapped_file_size_consume_queue=default.mapped_file_size_consume_queue if queue is None else queue.size,
        mapped_file_size_consume_queue_ext=default.mapped_file_size_consume_queue_ext if ext is None else ext.size,
        enable_consume_queue_ext=ext is not None,
        enable_lmq=light,
        enable_multi_dispatch=light,
    )
    return StoreShape.of(options)


def queue_folders(files: Files, root: str, folder: str = "consumequeue") -> list[tuple[str, int, str]]:
    """Return topic, queue id and path of each queue folder."""
    found = []
    for topic in files.list_dir(f"{root}/{folder}"):
        numbers = [int(name) for name in files.list_dir(f"{root}/{folder}/{topic}") if name.isdecimal()]
        found += [(topic, number, f"{root}/{folder}/{topic}/{number}") for number in sorted(numbers)]
    return found


def read_checkpoint(files: Files, root: str) -> Checkpoint | None:
    """Return the checkpoint, or None if the file is missing. Raises `LayoutError` if it is too short."""
    data = files.read_file(f"{root}/checkpoint")
    return None if data is None else decode_checkpoint(data)


def inspect_store(files: Files, root: str, shape: StoreShape) -> StoreSummary:
    """Read a store folder from its first record to its last index header. Raises `StoreTooNew`."""
    summary = StoreSummary(
        root=root,
        format=check_format(files, root),
        abort=files.size(f"{root}/abort") >= 0,
        checkpoint=read_checkpoint(files, root),
        log=LogSummary(),
        config=files.list_dir(f"{root}/config"),
    )
    queues: dict[tuple[str, int], QueueSummary] = {}
    _read_log(files, root, shape, summary.log, queues)
    for topic, queue_id, path in queue_folders(files, root):
        queue = queues.setdefault((topic, queue_id), QueueSummary(topic, queue_id))
        _read_queue(files, path, queue)
    for topic, queue_id, path in queue_folders(files, root, "consumequeue_ext"):
        queue = queues.setdefault((topic, queue_id), QueueSummary(topic, queue_id))
        queue.ext_segments = len(segment_files(files, path))
    summary.queues = [queues[key] for key in sorted(queues)]
    summary.index = [index_summary(files, root, name) for name in files.list_dir(f"{root}/index")]
    return summary


def index_summary(files: Files, root: str, name: str) -> IndexSummary:
    """Return the header of one index file."""
    header = decode_index_header(read_whole(files, f"{root}/index/{name}", HEADER_SIZE))
    return IndexSummary(
        name=name,
        begin_timestamp=header.begin_timestamp,
        end_timestamp=header.end_timestamp,
        begin_physical_offset=header.begin_physical_offset,
        end_physical_offset=header.end_physical_offset,
        entries=header.index_count - 1,
        slots_used=header.slot_count,
    )


def _read_log(
    files: Files, root: str, shape: StoreShape, log: LogSummary, queues: dict[tuple[str, int], QueueSummary]
) -> None:
    segments = segment_files(files, f"{root}/commitlog")
    log.segments = len(segments)
    log.segment_size = shape.commit_log_segment_size
    log.first_offset = log.end_offset = segments[0].start if segments else 0
    for file in segments:
        for step in walk_segment(files, file, shape, check_crc=False):
            if isinstance(step, Problem):
                log.problems += 1
            elif isinstance(step, End):
                if step.blank:
                    log.end_offset = file.start + file.size
            else:
                _count(step, log, queues)


def _count(step: Records, log: LogSummary, queues: dict[tuple[str, int], QueueSummary]) -> None:
    for d in step.dispatches:
        queue = queues.get((d.topic, d.queue_id))
        if queue is None:
            queue = queues[d.topic, d.queue_id] = QueueSummary(d.topic, int(d.queue_id))
        queue.records += 1
        queue.bytes += d.size
        log.bytes += d.size
    log.records += len(step.dispatches)
    if not log.first_store_timestamp:
        log.first_store_timestamp = step.dispatches[0].store_timestamp
    last = step.dispatches[-1]
    log.last_store_timestamp = last.store_timestamp
    log.end_offset = last.physical_offset + last.size


def _read_queue(files: Files, path: str, queue: QueueSummary) -> None:
    segments = segment_files(files, path)
    queue.segments = len(segments)
    if not segments:
        return
    queue.min_offset = -1
    end = segments[0].start
    for file in segments:
        data = read_whole(files, file.path, file.size)
        for at in range(0, file.size - UNIT_SIZE + 1, UNIT_SIZE):
            physical_offset, size, _ = read_unit(data, at)
            if physical_offset < 0 or size <= 0:
                break
            end = file.start + at + UNIT_SIZE
            if size == PRE_BLANK_SIZE:
                continue
            queue.units += 1
            if queue.min_offset < 0:
                queue.min_offset = (file.start + at) // UNIT_SIZE
    queue.max_offset = end // UNIT_SIZE
    if queue.min_offset < 0:
        queue.min_offset = queue.max_offset


def _first_segment(files: Files, folder: str) -> SegmentFile | None:
    for topic in files.list_dir(folder):
        for queue in files.list_dir(f"{folder}/{topic}"):
            found = segment_files(files, f"{folder}/{topic}/{queue}")
            if found:
                return found[0]
    return None
