"""A store folder for measurements: a CommitLog of messages as producers send them, written in seconds."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from librt.strings import BytesWriter
from numpy.typing import NDArray

from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_id import encode_host
from bolide.layout.message_properties import MessageProperties
from bolide.layout.record import BLANK_MAGIC, encode_record

SEGMENT_SIZE: Final = 1024 * 1024 * 1024
TOPIC: Final = "BenchSpark"
QUEUES: Final = 8
_AT_ONCE: Final = 50_000
_BEGIN_MS: Final = 1_700_000_000_000
_MESSAGES_A_MS: Final = 100
_KEY: Final = b"0" * 32
_PROPERTIES: Final = (
    b"UNIQ_KEY\1" + _KEY + b"\2WAIT\1true\2TRACE_ON\1true\2MSG_REGION\1DefaultRegion\2CLUSTER\1DefaultCluster\2"
    b"TAGS\1TagA\2"
)
_HEX: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def make_store(root: Path, messages: int, body: int, segment_size: int = SEGMENT_SIZE) -> int:
    """Write `messages` records with bodies of `body` bytes below `root`/commitlog. Return the size of a record in
    bytes.

    Every record has its own UNIQ_KEY and one tag, as sent by a producer of 5.x. The records are in eight queues of one
    topic.
    """
    folder = root / "commitlog"
    folder.mkdir(parents=True, exist_ok=True)
    one = _record(body)
    size = len(one)
    per_file = (segment_size - 8) // size
    rng = np.random.default_rng(7)
    for number, first in enumerate(range(0, messages, per_file)):
        count = min(per_file, messages - first)
        start = number * segment_size
        with (folder / f"{start:020d}").open("wb") as file:
            for at in range(0, count, _AT_ONCE):
                many = min(_AT_ONCE, count - at)
                file.write(_records(one, first + at, many, start + at * size, rng).data)
            if first + count < messages:
                file.write(
                    (segment_size - count * size).to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big", signed=True)
                )
            file.truncate(segment_size)
            os.fdatasync(file.fileno())  # so that the disk is idle during the measurement
    return size


def _record(body: int) -> NDArray[np.uint8]:
    w = BytesWriter()
    host = encode_host("127.0.0.1", 10911)
    content = (b"0123456789abcdef" * (body // 16 + 1))[:body]
    message = BrokerMessage(TOPIC, TOPIC.encode(), 0, content, MessageProperties(""), 1, host)
    message.store_host = host
    message.encoded_properties = _PROPERTIES
    encode_record(w, message, queue_offset=0, physical_offset=0, store_timestamp=1)
    raw = np.frombuffer(w.getvalue(), np.uint8).copy()
    raw[8:12] = np.frombuffer((zlib.crc32(content) & 0x7FFFFFFF).to_bytes(4, "big"), np.uint8)
    return raw


def _records(
    one: NDArray[np.uint8], first: int, count: int, offset: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Return consecutive copies of a record, with different queues, offsets, times and keys."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    made = np.tile(one, (count, 1))

    def put(at: int, values: NDArray[Any], kind: str) -> None:
        made[:, at : at + np.dtype(kind).itemsize] = values.astype(kind).view(np.uint8).reshape(count, -1)

    times = _BEGIN_MS + numbers // _MESSAGES_A_MS
    put(12, numbers % QUEUES, ">i4")
    put(20, numbers // QUEUES, ">i8")
    put(28, offset + np.arange(count) * len(one), ">i8")
    put(40, times, ">i8")
    put(56, times, ">i8")
    at = one.tobytes().index(_KEY)
    made[:, at : at + len(_KEY)] = _HEX[rng.integers(0, 16, (count, len(_KEY)), np.uint8)]
    return made
