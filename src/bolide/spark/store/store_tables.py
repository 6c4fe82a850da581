"""The tables of a store folder other than its messages: queue units, index entries, and the broker's settings as rows.

A task reads a file completely, as files are small: a ConsumeQueue file has 6 MB, an index file at most 420 MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bolide.layout.columns import entry_batch, unit_batch
from bolide.layout.index_file import ENTRY_SIZE, decode_index_header, entry_position
from bolide.layout.queue_unit import PRE_BLANK_SIZE
from bolide.remoting.json import parse_long
from bolide.spark.errors import OptionError
from bolide.spark.source.schema import arrow_schema
from bolide.spark.store.store_folder import segment_files
from bolide.spark.store.store_options import StoreReadOptions
from bolide.spark.store.store_schema import TABLES


def table_files(root: Path, options: StoreReadOptions) -> list[str]:
    """Return the files of a table, relative to the store. Each is a task. Raises `OptionError` if a file is missing."""
    if options.table == "consume_queue":
        topics = options.topics or sorted(path.name for path in (root / "consumequeue").glob("*"))
        folders = [f for topic in topics for f in sorted((root / "consumequeue" / topic).glob("[0-9]*"))]
        return [str(path.relative_to(root)) for folder in folders for _, path, _ in segment_files(folder)]
    if options.table == "index":
        return [str(path.relative_to(root)) for path in sorted((root / "index").glob("[0-9]*"))]
    name = {"offsets": "consumerOffset", "topics": "topics", "groups": "subscriptionGroup"}[options.table]
    file = f"config/{name}.json"
    if not (root / file).exists():
        raise OptionError(f"{root} has no {file}: table {options.table} cannot be read from it")
    return [file]


def read_table(root: Path, file: str, options: StoreReadOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file of a table."""
    kinds = TABLES[options.table]
    schema = arrow_schema(columns, kinds)
    if options.table == "consume_queue":
        made = _units(file, (root / file).read_bytes())
    elif options.table == "index":
        made = _entries(root / file, options.index_slots)
    else:
        made = _settings((root / file).read_bytes(), options, tuple(kinds))
    yield pa.RecordBatch.from_arrays([made[name].cast(schema.field(name).type) for name in columns], schema=schema)


def _units(file: str, data: bytes) -> dict[str, Any]:
    """Return the units of a ConsumeQueue file, without pre-blank and unwritten units."""
    _, topic, queue_id, name = Path(file).parts
    units = unit_batch(data)
    sizes = units.column("size").to_numpy()
    used = np.flatnonzero((sizes > 0) & (sizes != PRE_BLANK_SIZE))
    taken: Any = units.take(pa.array(used, pa.int64()))
    return {
        "topic": pa.repeat(topic, len(used)),
        "queue_id": pa.repeat(int(queue_id), len(used)),
        "queue_offset": pa.array(used + int(name) // 20),
        **{column: taken.column(column) for column in ("physical_offset", "size", "tags_code")},
    }


def _entries(path: Path, slots: int) -> dict[str, Any]:
    """Return the entries of an index file."""
    data = path.read_bytes()
    header = decode_index_header(data)
    _check_slots(path, len(data), slots, header.index_count)
    first, end = entry_position(slots, 1), entry_position(slots, header.index_count)
    entries: Any = entry_batch(data[first:end])
    count = entries.num_rows
    times = header.begin_timestamp + entries.column("seconds").to_numpy().astype(np.int64) * 1000
    milliseconds: Any = pa.array(times.astype("datetime64[ms]"))
    return {
        "file": pa.repeat(path.name, count),
        "number": pa.array(np.arange(1, count + 1)),
        "store_timestamp": milliseconds.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        **{column: entries.column(column) for column in ("key_hash", "physical_offset", "previous")},
    }


def _check_slots(path: Path, size: int, slots: int, index_count: int) -> None:
    """Raise `OptionError` if `slots` does not match the size of an index file. The file does not contain the number."""
    rest = size - 40 - 4 * slots
    if rest % ENTRY_SIZE or rest < ENTRY_SIZE * index_count:
        raise OptionError(f"{path} has no {slots} slots: set option indexSlots to the broker's maxHashSlotNum")


def _settings(data: bytes, options: StoreReadOptions, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the rows of a JSON file of the broker."""
    value = parse_long(data)
    rows: list[tuple[Any, ...]] = []
    if options.table == "offsets":
        for key, queues in sorted((value.get("offsetTable") or {}).items()):
            topic, _, group = key.partition("@")
            rows += [(group, topic, int(queue), int(offset)) for queue, offset in queues.items()]
    elif options.table == "topics":
        for name, topic in sorted((value.get("topicConfigTable") or {}).items()):
            rows.append((name, topic.get("readQueueNums"), topic.get("writeQueueNums"), topic.get("perm")))
    else:
        for name, group in sorted((value.get("subscriptionGroupTable") or {}).items()):
            keys = ("consumeEnable", "consumeMessageOrderly", "retryQueueNums", "retryMaxTimes")
            rows.append((name, *(group.get(key) for key in keys)))
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return {name: pa.array(list(column)) for name, column in zip(names, columns, strict=True)}
