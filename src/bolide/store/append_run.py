"""Appends the encoded records of one socket read together (see `broker.send.plain_sends`).

The records, their queue offsets and their store times are the same as with `MessageStore.append`.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from bolide.dispatch.row import Dispatch
from bolide.store.message_store import MessageStore

ROW: Final = 56
"""Size of a row in bytes: seven int64 values."""
TEXTS: Final = 4


def append_run(
    store: MessageStore, topics: list[str], records: bytes, rows: bytes, texts: list[str | bytes], now: i64
) -> None:
    """Append encoded messages to the batch of this turn. The caller has checked that they fit (`CommitLog.room`).

    A row contains the size of the record, queue id, queue offset, tags code, sys flag, index of the topic in `topics`,
    and 1 for the first record of a send. `texts` has the unique key, keys, tags and stored properties of each record.
    """
    log = store.log
    stamp: i64 = log.store_time(now)
    offset: i64 = log.end_offset
    known = [store.numbers.known(topic) for topic in topics]
    dispatches: list[Dispatch] = []
    reput = store.reput
    at: i64 = 0
    end: i64 = len(rows)
    text = 0
    while at < end:
        size: i64 = read_i64_be(rows, at)
        d = Dispatch(
            topics[int(read_i64_be(rows, at + 40))],
            queue_id=read_i64_be(rows, at + 8),
            queue_offset=read_i64_be(rows, at + 16),
            physical_offset=offset,
            size=size,
            tags_code=read_i64_be(rows, at + 24),
            store_timestamp=stamp,
            sys_flag=read_i64_be(rows, at + 32),
        )
        uniq_key = texts[text]
        keys = texts[text + 1]
        tags = texts[text + 2]
        properties = texts[text + 3]
        assert isinstance(uniq_key, str) and isinstance(keys, str)
        assert isinstance(tags, str) and isinstance(properties, bytes)
        d.uniq_key = uniq_key
        d.keys = keys
        d.tags = tags
        d.properties = properties
        dispatches.append(d)
        offset += size
        at += ROW
        text += TEXTS
    log.append_encoded(records, stamp)
    at = 40
    for d in dispatches:  # only now, so that the store is unchanged if memory is exhausted
        known[int(read_i64_be(rows, at))][int(d.queue_id)] = int(d.queue_offset + 1)
        at += ROW
        reput.offer(d)
    store.appended(dispatches, now)
