"""Decodes JSON bodies into columns with Arrow, many at a time.

All bodies are joined to one text in which each object contains the number of its row, so that a body with two objects,
or half an object, cannot shift later rows. If the text does not parse, it is split in halves repeatedly: a good batch
is parsed once, and a bad body costs a few more parses.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from bolide.bodies.parsed_schemas import ParsedSchemas
from bolide.bodies.registry import JSON, Registry, UnfitBody
from bolide.layout.property_columns import every, slices

ROW: Final = "bolide:row"
MAX_TEXT: Final = 512 * 1024 * 1024
"""Maximum number of bytes to parse together: Arrow reads a single block of less than 2 GiB."""
_compute: Any = pc  # its stubs lack plain values as scalars and some functions
_json: Any = pj
_arrow: Any = pa
_BRACE: Final = ord("{")


class JsonBodies:
    """Decodes JSON objects into these columns. A missing field is null, and a field without a column is skipped.

    Decimals are exact: a number with more digits than its type does not fit.
    """

    def __init__(self, fields: list[pa.Field[Any]], registry: Registry | None = None) -> None:
        """With a registry, each object follows the id of its schema."""
        self._registry = registry
        self._schema = pa.schema(fields)
        self._has_decimals = any("decimal" in str(field.type) for field in fields)
        parsed = [pa.field(ROW, pa.int64()), *(pa.field(field.name, _read_as(field.type)) for field in fields)]
        self._options = _json.ParseOptions(
            explicit_schema=pa.schema(parsed),
            newlines_in_values=True,
            unexpected_field_behavior="ignore",
        )

    def decode(self, bodies: Any) -> tuple[list[Any], dict[int, str]]:
        """Return the columns of these bodies, and the reason for each bad row by index."""
        bad: dict[int, str] = {}
        if self._registry is not None:
            bodies = _payloads(bodies, self._registry, bad)
        text = self._numbered(bodies, bad)
        good = np.setdiff1d(np.arange(len(bodies)), np.fromiter(bad, np.int64, len(bad)))
        tables: list[Any] = []
        self._parse(text, good, tables, bad)
        table: Any = pa.concat_tables(tables) if tables else self._schema.empty_table()
        arrays = [column.combine_chunks() for column in table.columns]
        if bad:
            where = np.full(len(bodies), -1, np.int64)
            where[[row for row in range(len(bodies)) if row not in bad]] = np.arange(len(bodies) - len(bad))
            places = pa.array(where, pa.int64(), mask=where < 0)
            arrays = [array.take(places) for array in arrays]
        return arrays, bad

    def _numbered(self, bodies: Any, bad: dict[int, str]) -> Any:
        """Return each body with the number of its row as its first member, and a line end."""
        raw, ends = _contents(bodies)
        first = np.zeros(len(bodies), np.uint8)
        filled = ends[1:] > ends[:-1]
        first[filled] = raw[ends[:-1][filled]]
        odd = np.flatnonzero(first != _BRACE)
        if len(odd):
            plain = bodies.to_pylist()
            for row in odd.tolist():
                plain[row] = plain[row].lstrip(b" \t\r\n")
                if not plain[row].startswith(b"{"):
                    bad.setdefault(row, "it is not a JSON object")
                    plain[row] = b"{}"
            raw, ends = _contents(pa.array(plain, pa.binary()))
        # Two elements per body: the brace, and the rest.
        spread = np.empty(2 * len(bodies) + 1, np.int32)
        spread[0::2] = ends
        spread[1::2] = ends[:-1] + 1
        rest = every(slices(pa.binary(), spread, raw), 2, 1)
        numbers = pa.array(np.arange(len(bodies))).cast(pa.string()).cast(pa.binary())
        is_empty = _compute.match_substring_regex(rest, r"^\s*\}")
        comma = _compute.if_else(is_empty, b"", b",").cast(pa.binary())
        head = pa.scalar(b'{"%s":' % ROW.encode(), pa.binary())
        end, nothing = pa.scalar(b"\n", pa.binary()), pa.scalar(b"", pa.binary())
        return _compute.binary_join_element_wise(head, numbers, comma, rest, end, nothing)

    def _parse(self, text: Any, rows: Any, tables: list[Any], bad: dict[int, str]) -> None:
        """Parse these rows into tables, in order. Adds rows that do not parse to `bad`."""
        if not len(rows):
            return
        chosen = text if len(rows) == len(text) else text.take(pa.array(rows))
        table, reason = self._read(chosen, rows) if _size(chosen) <= MAX_TEXT or len(rows) == 1 else (None, "")
        if table is not None:
            tables.append(table)
        elif len(rows) == 1:
            bad[int(rows[0])] = reason
        else:
            middle = len(rows) // 2
            self._parse(text, rows[:middle], tables, bad)
            self._parse(text, rows[middle:], tables, bad)

    def _read(self, text: Any, rows: Any) -> tuple[Any, str]:
        """Return the table of these rows, or None and the reason."""
        raw, _ = _contents(text)
        source = pa.BufferReader(_arrow.py_buffer(raw))
        block = _json.ReadOptions(use_threads=False, block_size=len(raw) + 1)
        try:
            table = _json.read_json(source, read_options=block, parse_options=self._options)
            found = table.column(ROW)
            table = table.drop_columns([ROW]).cast(self._schema)
            if self._has_decimals:
                table.validate(full=True)  # Arrow's parser does not compare the digits of 12.3 with DECIMAL(3,2)
        except pa.ArrowException as error:
            return None, str(error).splitlines()[0]
        if found.null_count or not np.array_equal(found.to_numpy(), rows):
            return None, "it is not exactly one JSON object"
        return table, ""


def _payloads(bodies: Any, registry: Registry, bad: dict[int, str]) -> Any:
    """Return the bodies without their schema ids. A bad body becomes empty. Raises `RegistryError`."""
    found: list[bytes] = []
    schemas = ParsedSchemas({JSON: lambda _: None})  # bodies are not validated
    for row, body in enumerate(bodies.to_pylist()):
        try:
            written = registry.read(body)
            schemas.of(written.schema)
            found.append(written.payload)
        except UnfitBody as error:
            bad[row] = str(error)
            found.append(b"")
    return pa.array(found, pa.binary())


def _contents(values: Any) -> tuple[Any, Any]:
    """Return the bytes of a binary array, the start of each element, and the end of the last one."""
    _, ends, data = values.buffers()
    offsets = np.frombuffer(memoryview(ends), np.int32, len(values) + 1, values.offset * 4)
    raw = np.frombuffer(memoryview(data or b""), np.uint8)[offsets[0] : offsets[-1]]
    return raw, offsets - offsets[0]


def _size(text: Any) -> int:
    return int(_compute.sum(_compute.binary_length(text)).as_py())


def _read_as(kind: pa.DataType) -> pa.DataType:
    """Return the type with which to parse a field: Arrow's parser reads dates only as numbers, but a cast converts
    strings."""
    types: Any = pa.types
    whole: Any = kind
    if types.is_date32(kind):
        return pa.string()
    if types.is_list(kind):
        return pa.list_(pa.field(whole.value_field.name, _read_as(whole.value_type)))
    if types.is_struct(kind):
        fields = [whole.field(number) for number in range(whole.num_fields)]
        return pa.struct([pa.field(field.name, _read_as(field.type)) for field in fields])
    return kind

