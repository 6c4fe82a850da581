"""The offsets that a range reader returned."""

from __future__ import annotations

from collections.abc import Iterator

from bolide.layout.columns import RecordColumns, chain_starts

QUICK = 0.01
"""Seconds between tries, so that no test waits long."""


def offsets(chunks: Iterator[tuple[bytes, int]]) -> list[int]:
    found: list[int] = []
    for body, _ in chunks:
        found += RecordColumns(body, chain_starts(body)).numbers("queue_offset").tolist()
    return found
