"""Times in Arrow batches from Spark. Their zone is `spark.sql.session.timeZone`, which Spark accepts in forms (`GMT+8`)
that Python and Arrow do not, and years after 9999, which Python does not have. The values themselves are in UTC.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with UTC as the zone of each time with a zone, also inside structs, lists and maps.

    The values are not copied.
    """
    schema = batch.schema
    kinds = [_utc(field.type) for field in schema]
    if all(kind == field.type for kind, field in zip(kinds, schema, strict=True)):
        return batch
    columns = [column.view(kind) for column, kind in zip(batch.columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def milliseconds_of(times: Any) -> Any:
    """Return a column of times as ms since 1970, rounded down, in int64. Returns other columns unchanged."""
    if not pa.types.is_timestamp(times.type):
        return times
    values = times.cast(pa.timestamp("us", times.type.tz)).view(pa.int64())
    known = values.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(values.fill_null(0).to_numpy() // 1000, mask=~known)


def _utc(kind: Any) -> Any:
    types = pa.types
    if types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, "UTC")
    if types.is_struct(kind):
        return pa.struct([field.with_type(_utc(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(kind.key_field.with_type(_utc(kind.key_type)), kind.item_field.with_type(_utc(kind.item_type)))
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_utc(kind.value_type)))
    return kind
