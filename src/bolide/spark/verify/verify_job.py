"""The audit of a whole store on Spark: compares all records, units and entries with each other.

The log is read once, one stretch per task. A task checks lengths, offsets and CRCs, and writes the expected units and
entries into part files, as in a rebuild. Then each queue and each index file is compared with the expected content, one
per task. The audit does not write to the store and does not lock it. In a store in use, the newest records may not have
units yet.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from bolide.layout.checkpoint import decode_checkpoint
from bolide.layout.errors import LayoutError
from bolide.remoting.errors import BodyError
from bolide.remoting.json import parse_long
from bolide.spark.dispatch.bitmaps import TopicFilter, read_filters
from bolide.spark.dispatch.derived_files import QueueTask
from bolide.spark.dispatch.dispatch_parts import PartFiles, PartSummary, make_part
from bolide.spark.dispatch.dispatch_plan import bundles
from bolide.spark.session.progress import OnProgress, Runner, no_progress
from bolide.spark.store.log_scan import Stretch
from bolide.spark.store.store_folder import segment_files
from bolide.spark.store.store_plan import packed, plan_stretches, store_root
from bolide.spark.verify.verdict import Findings, Verdict
from bolide.spark.verify.verify_entries import IndexAudit, IndexTask, audit_index, index_header
from bolide.spark.verify.verify_queues import QueueAudit, audit_queue, check_segments

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from bolide.layout.shape import StoreShape

SPLIT_SIZE: Final = 64 * 1024 * 1024
TASKS_PER_CORE: Final = 4
UNREADABLE: Final = (BodyError, ValueError, TypeError, AttributeError)
"""Errors of a file that is not JSON, or not in the form that a broker writes."""
_RUNS: Final = [("part", "i8"), ("first", "i8"), ("count", "i8"), ("begin", "i8")]


@dataclass
class _AuditTask:
    """A task of the second stage."""

    index: IndexTask | None = None
    queues: list[QueueTask] = field(default_factory=list)

    @property
    def files(self) -> int:
        return 1 if self.index is not None else len(self.queues)


def verify_on_spark(
    spark: SparkSession | SparkContext,
    store: str,
    shape: StoreShape,
    *,
    split_size: int = SPLIT_SIZE,
    progress: OnProgress = no_progress,
    work_folder: str | None = None,
) -> Verdict:
    """Check a store folder. Writes part files below `work_folder`, else into a temporary folder. Executors must see
    that folder."""
    return verify_with(Runner(spark, progress), store, shape, split_size, work_folder)


def verify_with(
    runner: Runner, store: str, shape: StoreShape, split_size: int = SPLIT_SIZE, work_folder: str | None = None
) -> Verdict:
    """Like `verify_on_spark`, with any runner of tasks."""
    began = time.monotonic()
    root = store_root(store).absolute()
    verdict = Verdict(str(root))
    # Also compare the entries for tags, unless there are none at all, as in a store of 4.9.
    audited = shape.with_tags_in_index(True)
    folder = tempfile.mkdtemp(prefix="bolide-verify-", dir=work_folder)
    try:
        parts = _read_log(runner, root, audited, split_size, folder, verdict)
        _check_derived(runner, root, shape, audited, parts, verdict)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _check_checkpoint(root, parts, verdict)
    _check_offsets(root, verdict)
    verdict.findings.sort(key=lambda one: (one.path, one.position))
    verdict.seconds = time.monotonic() - began
    return verdict


def _read_log(
    runner: Runner, root: Path, shape: StoreShape, split_size: int, folder: str, verdict: Verdict
) -> list[PartSummary]:
    """Run the first stage, and add the findings about the log to the verdict."""
    found = Findings()
    check_segments(root / "commitlog", shape.commit_log_segment_size, found)
    verdict.add(found)
    files = segment_files(root / "commitlog")
    stretches = plan_stretches(root, split_size)
    verdict.log_files, verdict.first_offset = len(files), files[0][0]
    verdict.log_bytes = sum(part.end - part.begin for part in stretches)
    read = partial(_read_stretches, shape=shape, folder=folder, filters=_filters(root, shape, verdict))
    groups = packed(stretches, split_size)
    sizes = [sum(part.end - part.begin for part in group) for group in groups]
    parts = runner.each("reading the log", "bytes", list(enumerate(groups)), read, sizes)
    verdict.records = sum(part.records for part in parts)
    verdict.end_offset = max([verdict.first_offset, *(part.end_offset for part in parts)])
    running = (root / "abort").exists()
    if running:
        verdict.notes.append("abort exists: the store was not stopped cleanly, or a broker is using it")
    for bad in (bad for part in parts for bad in part.bad):
        if bad.torn and running:
            verdict.notes.append(
                f"{bad.path}: {bad.reason} at physical offset {bad.physical_offset}: a start truncates it"
            )
        else:
            verdict.find(bad.path, bad.physical_offset, bad.reason)
    return parts


def _check_derived(
    runner: Runner, root: Path, shape: StoreShape, audited: StoreShape, parts: Sequence[PartSummary], verdict: Verdict
) -> None:
    """Run the second stage."""
    places = PartFiles([part.file for part in parts])
    tasks = [_AuditTask(index=task) for task in _index_tasks(root, shape)]
    tasks += [_AuditTask(queues=task.queues) for task in bundles(parts, {}, TASKS_PER_CORE * runner.parallelism)]
    empty = [QueueTask(topic, queue_id, np.empty(0, _RUNS)) for topic, queue_id in _without_records(root, parts)]
    step = max(1, len(empty) // (TASKS_PER_CORE * runner.parallelism))
    tasks += [_AuditTask(queues=empty[at : at + step]) for at in range(0, len(empty), step)]
    check = partial(
        _audit, root=str(root), shape=audited, parts=places, log_start=verdict.first_offset, log_end=verdict.end_offset
    )
    running = (root / "abort").exists()
    indexes: list[IndexAudit] = []
    for queues, index in runner.each("checking files", "files", tasks, check, [task.files for task in tasks]):
        for queue in queues:
            _take_queue(verdict, root, queue, running)
        if index is not None:
            indexes.append(index)
    verdict.queues.sort(key=lambda row: (row.topic, row.queue_id))
    if shape.index_enabled:
        _take_index(verdict, root, shape, indexes, parts, running)


def _index_tasks(root: Path, shape: StoreShape) -> list[IndexTask]:
    if not shape.index_enabled:
        return []
    paths = sorted((root / "index").glob("[0-9]*"))
    headers = [index_header(path, shape) for path in paths]
    found = []
    for number, (path, header) in enumerate(zip(paths, headers, strict=True)):
        if header is None:
            found.append(IndexTask(str(path), "", -1, -1, 0))
            continue
        following = paths[number + 1] if number + 1 < len(paths) and headers[number + 1] is not None else ""
        before = headers[number - 1] if number else None
        # An index may start later than the log, or after an unreadable file. Then records before its first entry are
        # not checked.
        after = header.begin_physical_offset - 1 if before is None else before.end_physical_offset
        counted = 0 if before is None else before.end_timestamp
        found.append(IndexTask(str(path), str(following), int(after), int(header.end_physical_offset), int(counted)))
    return found


def _without_records(root: Path, parts: Sequence[PartSummary]) -> list[tuple[str, int]]:
    """Return the queues that have files but no record in the log."""
    known = {
        (part.topics[topic], queue) for part in parts for topic, queue in part.runs[["topic", "queue_id"]].tolist()
    }
    folders = [path for path in sorted((root / "consumequeue").glob("*/*")) if path.name.isdecimal()]
    return [key for path in folders if (key := (path.parent.name, int(path.name))) not in known]


def _take_queue(verdict: Verdict, root: Path, audit: QueueAudit, running: bool) -> None:
    row, found = audit.row, audit.found
    path = f"{root}/consumequeue/{row.topic}/{row.queue_id}"
    name = f"{row.topic} queue {row.queue_id}"
    if audit.lacking:
        found.find(path, 0, f"{name} lacks {audit.lacking} records of the log, the first at {audit.lacking_first}")
    if audit.behind:
        sentence = f"{name} does not have the last {audit.behind} records yet, from {audit.behind_first} on"
        if running:
            verdict.notes.append(f"{sentence}: the next start dispatches them")
        else:
            found.find(path, 0, sentence)
    row.findings = found.count
    verdict.add(found)
    if audit.strange_bits:
        verdict.notes.append(
            f"{path}: {audit.strange_bits} extension units have bits that no filter in consumerFilter.json sets, "
            "as after a filter was changed or removed"
        )
    verdict.queues.append(row)
    verdict.units += row.units
    verdict.ext_units += audit.ext_units


def _take_index(
    verdict: Verdict, root: Path, shape: StoreShape, audits: Sequence[IndexAudit], parts: Sequence[PartSummary],
    running: bool,
) -> None:  # fmt: skip
    """Add the findings of each index file, and the entries that are missing in all files."""
    tags, no_tags = sum(audit.tags for audit in audits), sum(audit.no_tags for audit in audits)
    for audit in audits:
        path = f"{root}/index/{audit.row.name}"
        if audit.lacking:
            audit.found.find(
                path, 0, f"it lacks the keys of {audit.lacking} records, the first at {audit.lacking_first}"
            )
        if audit.no_tags and tags:
            sentence = (
                f"{audit.no_tags} tagged records have no entry for their tags, the first at {audit.no_tags_first}"
            )
            audit.found.find(path, 0, sentence)
        audit.row.findings = audit.found.count
        verdict.add(audit.found)
        verdict.index.append(audit.row)
        verdict.index_entries += audit.row.entries
    if no_tags and not tags and shape.tags_in_index:
        verdict.notes.append("no tagged record has an entry for its tags: the index was written by the rules of 4.9")
    last = max((audit.last_offset for audit in audits), default=-1)
    behind = [part.last_entry_offset for part in parts if part.last_entry_offset > last]
    if behind:
        sentence = f"the index ends at the record at {last}, records with keys continue to {behind[-1]}"
        if running:
            verdict.notes.append(f"{sentence}: the next start dispatches them")
        else:
            verdict.find(f"{root}/index", 0, sentence)


def _check_checkpoint(root: Path, parts: Sequence[PartSummary], verdict: Verdict) -> None:
    path = root / "checkpoint"
    if not path.exists():
        verdict.notes.append("there is no checkpoint: the next start reads the whole log")
        return
    try:
        checkpoint = decode_checkpoint(path.read_bytes())
    except LayoutError as error:
        verdict.find(str(path), 0, str(error))
        return
    for position, sentence in checkpoint.offset_faults(verdict.end_offset):
        verdict.find(str(path), position, sentence)
    newest = max((part.newest_timestamp for part in parts), default=-1)
    for position, sentence in checkpoint.time_faults(newest) if newest >= 0 else ():
        if (root / "abort").exists():
            verdict.notes.append(f"the checkpoint may be newer than what was read: {sentence}")
        else:
            verdict.find(str(path), position, sentence)


def _check_offsets(root: Path, verdict: Verdict) -> None:
    """Report committed offsets beyond the end of their queue, because such groups would skip new messages."""
    path = root / "config" / "consumerOffset.json"
    if not path.exists():
        return
    ends = {(row.topic, row.queue_id): row.end for row in verdict.queues}
    try:
        table = parse_long(path.read_bytes()).get("offsetTable") or {}
        noted = {key: {int(queue): int(at) for queue, at in queues.items()} for key, queues in sorted(table.items())}
    except UNREADABLE as error:
        verdict.find(str(path), 0, f"it cannot be read: {error}")
        return
    for key, queues in noted.items():
        topic, _, group = key.partition("@")
        for queue_id, offset in queues.items():
            verdict.consumer_offsets += 1
            end = ends.get((topic, queue_id), 0)
            if offset > end:
                sentence = f"group {group} is at {offset} of {topic} queue {queue_id}, which ends at {end}"
                verdict.find(str(path), 0, sentence)


def _filters(root: Path, shape: StoreShape, verdict: Verdict) -> tuple[TopicFilter, ...]:
    try:
        return read_filters(root, shape)
    except UNREADABLE as error:
        verdict.find(str(root / "config" / "consumerFilter.json"), 0, f"it cannot be read: {error}")
        return ()


def _read_stretches(
    numbered: tuple[int, Sequence[Stretch]], shape: StoreShape, folder: str, filters: Sequence[TopicFilter]
) -> PartSummary:
    number, stretches = numbered
    return make_part(stretches, shape, f"{folder}/{number:08d}", number, filters, audit=True)


def _audit(
    task: _AuditTask, root: str, shape: StoreShape, parts: PartFiles, log_start: int, log_end: int
) -> tuple[list[QueueAudit], IndexAudit | None]:
    with parts:
        queues = [audit_queue(root, parts, queue, shape, log_start, log_end) for queue in task.queues]
        index = None if task.index is None else audit_index(parts, task.index, shape, log_start, log_end)
    return queues, index
