"""Data derived from many records, with numpy and Arrow: the counterpart of `row`.

Java's string hash is computed for all strings in one pass, as a polynomial over all their bytes. Its value between two
positions is computed by subtraction, because 31 has an inverse modulo 2^32. Non-ASCII strings are hashed one by one.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bolide.dispatch.multi import MAX_NAME_BYTES, SEPARATOR
from bolide.dispatch.row import delay_level
from bolide.layout.columns import RecordColumns
from bolide.layout.delay import delivery_time
from bolide.layout.hashes import java_hash
from bolide.layout.names import LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX
from bolide.layout.properties import text_of
from bolide.layout.property_columns import between, coded
from bolide.layout.property_names import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from bolide.layout.sysflag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK

if TYPE_CHECKING:
    from bolide.layout.property_columns import Bytes, Column, Ints
    from bolide.layout.shape import StoreShape

Words = NDArray[np.uint32]

DISPATCH_COLUMNS: Final = (
    "topic",
    "queue_id",
    "queue_offset",
    "physical_offset",
    "size",
    "tags_code",
    "store_timestamp",
    "sys_flag",
    "prepared_transaction_offset",
    "uniq_key",
    "keys",
    "tags",
    "in_queue",
    "in_index",
)
_LIGHT_NAME: Final = f"^{LMQ_PREFIX}[^/\\x00]*$"
_OFFSET: Final = "^[0-9]{1,17}$"
_INT_MIN: Final = np.int32(-(2**31))
_INVERSE_31: Final = pow(31, -1, 2**32)
_compute: Any = pc
_arrow: Any = pa  # its stubs do not accept numpy arrays as columns


def dispatch_batch(records: RecordColumns, shape: StoreShape) -> pa.RecordBatch:
    """Return one row per record with DISPATCH_COLUMNS. `keys` is KEYS as stored, and missing texts are null."""
    sys_flag = records.numbers("sys_flag")
    bits = sys_flag & TRANSACTION_MASK
    columns: dict[str, Any] = {
        "topic": records.topic,
        "size": records.numbers("total_size"),
        "tags_code": tags_codes(records, shape),
        "uniq_key": records.uniq_key,
        "keys": records.property_values("KEYS"),
        "tags": records.tags,
        "in_queue": (bits != TRANSACTION_PREPARED) & (bits != TRANSACTION_ROLLBACK),
        "in_index": bits != TRANSACTION_ROLLBACK,
    }
    arrays = [_arrow.array(columns[n] if n in columns else records.numbers(n)) for n in DISPATCH_COLUMNS]
    return pa.RecordBatch.from_arrays(arrays, names=list(DISPATCH_COLUMNS))


def tags_codes(records: RecordColumns, shape: StoreShape) -> Ints:
    """Return the tags code of each record's queue unit. In the schedule topic, it is the delivery time (ms)."""
    rows, begin, end = records.marks.spans(b"TAGS")
    codes = np.zeros(len(records), np.int64)
    codes[rows] = _hashes_of(_texts(records, begin, end))
    topics: Any = records.topic_codes
    names = topics.dictionary.to_pylist()
    if SCHEDULE_TOPIC in names:
        rows, begin, end = records.marks.spans(b"DELAY")
        of_row = dict(zip(rows.tolist(), _texts(records, begin, end).to_pylist(), strict=True))
        times = records.numbers("store_timestamp")
        for row in np.flatnonzero(topics.indices.to_numpy() == names.index(SCHEDULE_TOPIC)).tolist():
            level = min(delay_level(text_of(of_row.get(row, b""))), len(shape.delay_levels_ms))
            if level > 0:
                codes[row] = delivery_time(shape.delay_levels_ms, level, int(times[row]))
    return codes


def _hashes_of(texts: Any) -> NDArray[np.int32]:
    """Return Java's hash of each text. Each distinct text is hashed once, because tags have few distinct values."""
    encoded: Any = coded(texts)
    hashes: NDArray[np.int32] = string_hashes(encoded.dictionary)[encoded.indices.to_numpy()]
    return hashes


def light_queues(records: RecordColumns) -> tuple[Ints, Column, Ints]:
    """Return the positions of records in light queues (LMQ): row, queue name and queue offset.

    The counterpart of `multi.multi_queues`. Does not check whether the record itself is in a queue.
    """
    lists = [
        _compute.split_pattern(_compute.utf8_rtrim(records.property_values(name), SEPARATOR), SEPARATOR)
        for name in (INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET)
    ]
    topics: Any = records.topic
    barred = functools.reduce(
        _compute.or_, [_compute.starts_with(topics, RETRY_PREFIX), _compute.starts_with(topics, SYSTEM_TOPIC_PREFIX)]
    )
    barred = _compute.or_(barred, _compute.equal(topics, SCHEDULE_TOPIC))
    same = _compute.equal(*[_compute.list_value_length(each) for each in lists])
    rows = np.flatnonzero(_compute.and_not(same.fill_null(False), barred).to_numpy(zero_copy_only=False))
    names, numbers = (each.take(_arrow.array(rows)) for each in lists)
    owners: Ints = rows[names.value_parent_indices().to_numpy()] if len(rows) else np.empty(0, np.int64)
    names, numbers = names.flatten(), numbers.flatten()
    fit = _compute.and_(
        _compute.match_substring_regex(names, _LIGHT_NAME), _compute.match_substring_regex(numbers, _OFFSET)
    )
    fit = _compute.and_(fit, _compute.less_equal(_compute.binary_length(names), MAX_NAME_BYTES))
    taken = np.flatnonzero(fit.to_numpy(zero_copy_only=False))
    # If a record lists a light queue twice, the first entry applies.
    codes = names.take(_arrow.array(taken)).dictionary_encode()
    of_name = codes.indices.to_numpy().astype(np.int64)
    _, first = np.unique(owners[taken] * (len(codes.dictionary) + 1) + of_name, return_index=True)
    taken = taken[np.sort(first)]
    places = _arrow.array(taken)
    return owners[taken], names.take(places), numbers.take(places).cast(pa.int64()).to_numpy()


def queue_units(physical_offset: Ints, size: Ints, tags_code: Ints) -> bytes:
    """Return consecutive queue units for records of one queue, given in the order of their queue offsets."""
    units = np.empty(len(physical_offset), np.dtype([("at", ">i8"), ("size", ">i4"), ("code", ">i8")]))
    units["at"], units["size"], units["code"] = physical_offset, size, tags_code
    return units.tobytes()


def index_batch(records: RecordColumns, shape: StoreShape) -> pa.RecordBatch:
    """Return one row per index entry, in the order of entries.

    The columns are physical_offset, store_timestamp and key_hash (never negative).
    """
    owners, hashes = index_hashes(records, shape)
    arrays = [
        _arrow.array(records.numbers("physical_offset")[owners]),
        _arrow.array(records.numbers("store_timestamp")[owners]),
        _arrow.array(hashes),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["physical_offset", "store_timestamp", "key_hash"])


def index_hashes(records: RecordColumns, shape: StoreShape) -> tuple[Ints, Ints]:
    """Return the row of each index entry, in the order of entries, and the hash of its key (never negative)."""
    count = len(records)
    indexed = (records.numbers("sys_flag") & TRANSACTION_MASK) != TRANSACTION_ROLLBACK
    groups = [(*_spans(records, b"UNIQ_KEY", indexed), b"#")]
    rows, begin, end = _spans(records, b"KEYS", indexed)
    if len(rows):
        groups.append((*_words(records.marks.raw, rows, begin, end), b"#"))
    if shape.tags_in_index:
        groups.append((*_spans(records, b"TAGS", indexed), b"#T#"))
    topics: Any = records.topic_codes
    of_row = topics.indices.to_numpy()
    found = []
    for rows, begin, end, prefix in groups:
        first = [java_hash(topic + prefix.decode()) for topic in topics.dictionary.to_pylist()]
        seeds = np.array(first, np.int64).astype(np.uint32)[of_row[rows]]
        signed = string_hashes(_texts(records, begin, end), seeds)
        # Java uses 0 for the one int that has no absolute value.
        found.append((rows, np.where(signed == _INT_MIN, 0, np.abs(signed))))
    if all(len(rows) == count and bool((rows[1:] > rows[:-1]).all()) for rows, _ in found):
        # The usual case: every record has exactly one entry per group.
        return np.repeat(np.arange(count), len(found)), np.stack([made for _, made in found], 1, dtype=np.int64).ravel()
    counts = [np.bincount(rows, minlength=count) for rows, _ in found]
    total = sum(counts, np.zeros(count, np.int64))
    base = np.cumsum(total) - total
    hashes = np.empty(int(total.sum()), np.int64)
    for (rows, made), of_group in zip(found, counts, strict=True):
        # Position of an entry within its row: after the entries of previous groups and of previous words.
        inner = np.arange(len(rows)) - np.searchsorted(rows, rows) if bool((of_group > 1).any()) else 0
        hashes[base[rows] + inner] = made
        base = base + of_group
    return np.repeat(np.arange(count), total), hashes


def _spans(records: RecordColumns, name: bytes, wanted: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
    """Return the selected rows that have a property, and the start and end of its value in each."""
    rows, begin, end = records.marks.spans(name)
    if not bool(wanted.all()):
        kept = wanted[rows]
        rows, begin, end = rows[kept], begin[kept], end[kept]
    return rows, begin, end


def _words(raw: Bytes, rows: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Return row, start and end of each word in texts. Words are separated by spaces and never empty."""
    blanks = np.flatnonzero(raw[begin[0] : end[-1]] == 0x20) + begin[0]
    owner = np.searchsorted(begin, blanks, "right") - 1
    inside = blanks < end[owner]
    blanks, owner = blanks[inside], owner[inside]
    order = np.argsort(np.concatenate([begin, blanks + 1]), kind="stable")
    starts = np.concatenate([begin, blanks + 1])[order]
    owners = np.concatenate([np.arange(len(rows)), owner])[order]
    ends = np.sort(np.concatenate([end, blanks]))
    filled = ends > starts
    return rows[owners[filled]], starts[filled], ends[filled]


def _texts(records: RecordColumns, begin: Ints, end: Ints) -> Any:
    """Return the bytes of the properties between each `begin` and `end` as an array."""
    return between(records.marks.raw, begin, end)


def string_hashes(texts: Column, seeds: Words | None = None) -> NDArray[np.int32]:
    """Return Java's String.hashCode of each text (string or UTF-8).

    With `seeds`, each text is hashed as the suffix of a longer text: the seed is the hash of the prefix.
    """
    count = len(texts)
    if not count:
        return np.empty(0, np.int32)
    plain: Any = texts
    _, ends, data = plain.buffers()
    offsets = np.frombuffer(ends, np.int32, count + 1, plain.offset * 4).astype(np.int64)
    raw = np.frombuffer(data if data is not None else b"", np.uint8)[offsets[0] : offsets[-1]]
    offsets -= offsets[0]
    lengths = np.diff(offsets)
    wide = len(raw) > 0 and int(raw.max()) >= 0x80
    if not wide and bool((lengths == lengths[0]).all()):
        # All texts are ASCII and equally long, as ids are: compute the polynomial of each row.
        powers, _ = _powers(_rounded(int(lengths[0]) + 1))
        table = raw.reshape(count, lengths[0]).astype(np.uint32)
        hashes: Words = table @ powers[: lengths[0]][::-1]
    else:
        powers, inverses = _powers(_rounded(len(raw) + 1))
        sums = np.zeros(len(raw) + 1, np.uint32)
        np.cumsum(raw * inverses[: len(raw)], out=sums[1:])
        hashes = (sums[offsets[1:]] - sums[offsets[:-1]]) * powers[np.maximum(offsets[1:] - 1, 0)]
    if wide:
        beyond = np.concatenate([[0], np.cumsum(raw >= 0x80)])
        for row in np.flatnonzero(beyond[offsets[1:]] != beyond[offsets[:-1]]).tolist():
            one = plain[row].as_py()
            text = one if isinstance(one, str) else text_of(one)
            hashes[row] = np.uint32(java_hash(text) & 0xFFFFFFFF)
            lengths[row] = len(text.encode("utf-16-be")) // 2
    if seeds is not None:
        hashes = hashes + seeds * powers[lengths]
    return hashes.view(np.int32)


def _rounded(size: int) -> int:
    """Return a power of two above `size`, at least 2^16, so that few tables of powers are computed."""
    return 1 << max(16, size.bit_length())


@functools.lru_cache(maxsize=4)
def _powers(size: int) -> tuple[Words, Words]:
    """Return the first `size` powers of 31 and of its inverse, modulo 2^32."""
    powers = np.full(size, 31, np.uint32)
    powers[0] = 1
    inverses = np.full(size, _INVERSE_31, np.uint32)
    inverses[0] = 1
    return np.cumprod(powers, dtype=np.uint32), np.cumprod(inverses, dtype=np.uint32)
