"""Cutting off the end of the log: a slave gives up what its new master does not have.

Everything derived from the log follows. A file says what is being cut from before the first byte goes until the last
change is synced: a start that finds it finishes the cut, so that a crash in the middle leaves no log with a hole and no
queue that names what is gone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from librt.strings import read_i32_be, read_i64_be

from bolide.layout.checkpoint import Checkpoint
from bolide.layout.record import BLANK_MAGIC, BLANK_SIZE, MAGIC_V1, MAGIC_V2, OFFSET_PHYSICAL
from bolide.store.disk.files import FileFailed
from bolide.store.disk.jobs import SyncDerived
from bolide.store.errors import NotTheLog, ServiceNotAvailable, StoreDamaged

if TYPE_CHECKING:
    from bolide.store.message_store import MessageStore

NAME: Final = "cutLog"
_CHUNK: Final = 1024 * 1024


def cut(store: MessageStore, end: int, now: int) -> None:
    """Let the log end at `end`, where a record begins, durably. It waits for the disk.

    Raises `ServiceNotAvailable` while something of the log is not synced (see `flush_soon`) or the pool is at work for
    the store, with nothing changed: ask again in a later turn. Raises `NotTheLog` for an offset at which no record
    begins, and `FileFailed`, after which the store takes nothing more until a start has finished the cut.
    """
    log = store.log
    if end == log.end_offset:
        return
    if not store.writable() or store.maintenance.sync_failed:
        raise ServiceNotAvailable(f"the store {store.root} cannot be cut: {store.flags.describe() or 'a sync failed'}")
    if store.maintenance.busy or log.end_offset != log.flushed_offset:
        raise ServiceNotAvailable(f"the store {store.root} cannot be cut while it writes")
    _check(store, end)
    try:
        # Crash before this line: nothing happened. After it: the next start finishes the cut.
        store.files.write_file(f"{store.root}/{NAME}", f"{end}\n".encode())
        checkpoint = replace(
            Checkpoint(),
            logics_physical_offset=max(min(store.maintenance.checkpoint.logics_physical_offset, end - 1), 0),
            run_id=store.maintenance.run_id,
        )
        _cut(store, end, checkpoint)
        log.tail.clear()
        log.start_at(end, log.last_store_timestamp, now, min(log.check_from, end), min(log.next_check_from, end))
        store.reput.withdraw(end)
        store.reput.start_at(min(store.reput.dispatched_offset, end))
        store.numbers.forget_all()
        store.maintenance.was_cut(checkpoint, end)
        _forget_note(store)
    except FileFailed as error:
        store.stop_writing(f"the log could not be cut at {end}: {error}")
        raise
    for tell in store.on_taken_back:
        tell(end)


def _check(store: MessageStore, end: int) -> None:
    """Raise `NotTheLog` unless a record, or the blank at the end of a file, begins here."""
    log = store.log
    if log.segments.min_offset <= end < log.end_offset:
        if end % log.segment_size == 0:
            return
        head = log.segments.read(end, OFFSET_PHYSICAL + 8)
        magic = read_i32_be(head, 4) if len(head) >= BLANK_SIZE else 0
        if magic == BLANK_MAGIC and read_i32_be(head, 0) == log.segment_size - end % log.segment_size:
            return
        whole = len(head) == OFFSET_PHYSICAL + 8 and magic in (MAGIC_V1, MAGIC_V2)
        if whole and read_i64_be(head, OFFSET_PHYSICAL) == end:
            return
    raise NotTheLog(
        f"the log of {store.root} reaches from {log.segments.min_offset} to {log.end_offset}, and no record begins at "
        f"{end}: it cannot be cut there"
    )


def finish_cut(store: MessageStore, checkpoint: Checkpoint) -> Checkpoint:
    """A start: finish the cut that a crash interrupted. The checkpoint that is valid then.

    Raises `FileFailed`, and `StoreDamaged` when the file of the cut cannot be read.
    """
    data = store.files.read_file(f"{store.root}/{NAME}")
    if data is None:
        return checkpoint
    try:
        end = int(data)
    except ValueError:
        raise StoreDamaged(f"{store.root}/{NAME} names no offset at which the log is to be cut: delete it") from None
    checkpoint = Checkpoint()
    if not store.log.segments.is_empty():
        _cut(store, end, checkpoint)
    _forget_note(store)
    return checkpoint


def _cut(store: MessageStore, end: int, checkpoint: Checkpoint) -> None:
    """Cut files only, all of it synced at the end. Done twice it does the same."""
    segments = store.log.segments
    known = segments.segment_starts()[-1]
    for name in reversed(store.files.list_dir(segments.folder)):
        if name.isdigit() and int(name) > max(known, end):  # made ahead, or about to be used: newest first
            store.files.remove(f"{segments.folder}/{name}")
            store.files.sync_dir(segments.folder)
    segments.truncate_to(end + 1)
    _wipe(store, end)
    segments.datasync_to(end + 1, end)
    store.queues.truncate(end)
    store.index.truncate(end)
    # No index file is certain by its time: records that come may be older than those that went.
    store.index.index_msg_timestamp = 0
    store.index.flush()
    store.queues.flush()
    store.queues.deleted.lower(end)
    store.queues.deleted.save()
    paths, folders = store.handles.take_unsynced()
    SyncDerived(store.files, store.root, paths, folders, checkpoint).run()


def _wipe(store: MessageStore, end: int) -> None:
    """Zero the rest of the file: a later record could end where a whole old one begins."""
    segments = store.log.segments
    at, stop = end, end - end % int(segments.segment_size) + int(segments.segment_size)
    while 0 <= at < stop and at < segments.end_of_files:
        at = int(segments.next_data(at))
        if not end <= at < stop:
            return
        data = segments.read(at, min(_CHUNK, stop - at))
        if not data:
            return
        segments.write(at, [bytes(len(data))])
        at += len(data)


def _forget_note(store: MessageStore) -> None:
    # Power cut before this is certain: the cut is finished once more, where no record follows yet. So nothing may be
    # appended before.
    store.files.remove(f"{store.root}/{NAME}")
    store.files.sync_dir(store.root)
