"""Decompresses bodies, and handles messages whose body cannot be decompressed according to `badRecords`."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from bolide.remoting.compression import COMPRESSED_FLAG, decompress_by_flag
from bolide.remoting.errors import CompressionError, CompressionMissing
from bolide.spark.errors import BadBody
from bolide.spark.source.bad_records import COLUMN, DROP, FAIL, BadRecords
from bolide.spark.synced_folders import sync_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bolide.layout.columns import RecordColumns

_LOG: Final = logging.getLogger("bolide.spark")
MAX_PLAIN_BODY: Final = 64 * 1024 * 1024
MAX_PLAIN: Final = 64 * 1024 * 1024
"""Maximum size in bytes of the decompressed bodies of a batch without the last, as kilobytes may become megabytes."""
_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("topic", pa.string()),
    ("broker", pa.string()),
    ("queue_id", pa.int32()),
    ("queue_offset", pa.int64()),
    ("physical_offset", pa.int64()),
    ("reason", pa.string()),
    ("record", pa.binary()),
]
SCHEMA: Final = pa.schema(_FIELDS)
"""Columns of a message in the dead letter folder: its position, the reason, and the record as stored."""


class Sifted(NamedTuple):
    """The records that a read returns."""

    records: RecordColumns
    body: Any
    """Decompressed bodies, null in bad rows."""
    good: NDArray[np.bool_] | None
    """Mask of the rows that are not bad, or None if all are good."""
    reasons: Any
    """Column with the reasons for bad rows, or None if all rows are good."""


def sifted(
    records: RecordColumns, bad: BadRecords, broker: str | None, place: Callable[[RecordColumns, int], str]
) -> Iterator[Sifted]:
    """Yield the records and their bodies in parts of limited memory, with bad records handled according to `bad`.

    `place` returns the location of the message of a row. Raises `BadBody` if bad records should fail the read.
    """
    done = 0
    while done < len(records):
        rest = records if done == 0 else records.only(np.arange(done, len(records)))
        body, why = plain_bodies(rest)
        done += len(body)
        now = rest if len(body) == len(rest) else rest.only(np.arange(len(body)))
        yield _sift(now, body, why, bad, broker, place)


def _sift(
    records: RecordColumns, body: Any, why: Mapping[int, str], bad: BadRecords, broker: str | None,
    place: Callable[[RecordColumns, int], str],
) -> Sifted:  # fmt: skip
    if not why:
        return Sifted(records, body, None, None)
    if bad.mode == FAIL:
        row = min(why)
        raise BadBody(
            f"the body of {place(records, row)} cannot be read: {why[row]}; set badRecords to {DROP} or {COLUMN} to "
            "read the rest"
        )
    good = np.ones(len(records), np.bool_)
    good[list(why)] = False
    if bad.mode == COLUMN:
        reasons = pa.array([why.get(row) for row in range(len(records))], pa.string())
        return Sifted(records, body, good, reasons)
    row = min(why)
    _LOG.warning(
        "left out %d messages whose bodies cannot be read, the first is %s: %s", len(why), place(records, row), why[row]
    )
    if bad.path:
        put_aside(records, why, bad.path, broker)
    return Sifted(records.only(good), body.filter(pa.array(good)), None, None)


def plain_bodies(records: RecordColumns) -> tuple[Any, dict[int, str]]:
    """Return the decompressed bodies, null if decompression fails, and the reasons for failures by row.

    Returns only the bodies of the first records if all would decompress to more than `MAX_PLAIN` bytes.
    """
    flags = records.numbers("sys_flag")
    marked = flags & COMPRESSED_FLAG
    if not marked.any():
        return records.body, {}
    compressed = np.flatnonzero(marked)
    bodies: list[Any] = records.body.to_pylist()
    why: dict[int, str] = {}
    size = 0
    for index in compressed.tolist():
        try:
            bodies[index] = decompress_by_flag(bodies[index], int(flags[index]), MAX_PLAIN_BODY)
            size += len(bodies[index])
        except CompressionMissing:
            raise  # the message may be as good as any
        except CompressionError as error:
            bodies[index] = None
            why[index] = str(error).partition(";")[0]
        if size > MAX_PLAIN:
            bodies = bodies[: index + 1]
            break
    return pa.array(bodies, pa.binary()), why


def put_aside(records: RecordColumns, why: Mapping[int, str], path: str, broker: str | None) -> None:
    """Write rows to a file named after their position, so that a repeated write replaces it."""
    import pyarrow.parquet as pq  # slow to import, and few tasks find a bad message

    rows = sorted(why)
    bad = records.only(np.array(rows, np.int64))
    columns = {
        "topic": bad.topic,
        "broker": pa.array([broker] * len(rows), pa.string()),
        **{name: pa.array(bad.numbers(name)) for name in ("queue_id", "queue_offset", "physical_offset")},
        "reason": pa.array([why[row] for row in rows], pa.string()),
        "record": bad.whole,
    }
    first, last = (int(bad.numbers("physical_offset")[row]) for row in (0, -1))
    place = f"{bad.topic[0].as_py()}@{broker or ''}.{int(bad.numbers('queue_id')[0])}.{first}-{last}"
    name = quote(place, safe="@%")
    home = Path(path)
    home.mkdir(parents=True, exist_ok=True)
    staged = home / f"_{uuid.uuid4().hex}"  # Spark ignores names that start with _
    table = pa.table({name: columns[name].cast(SCHEMA.field(name).type) for name in SCHEMA.names}, schema=SCHEMA)
    with staged.open("wb") as file:
        pq.write_table(table, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(staged, home / f"{name}.parquet")
    sync_folder(home)
