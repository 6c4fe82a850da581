"""Small settings of brokers under test: sizes of files that roll after a few messages, and patience with the machine.

`BrokerOptions.of` takes the sizes. `by_key` turns them into lines of a .conf file, `shape_of` into a `StoreShape`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bolide.declaration import java_key
from bolide.layout.shape import ShapeOptions, StoreShape

Fields = Mapping[str, Any]

TINY: Final[Fields] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 200,
    "max_hash_slot_num": 16,
    "max_index_num": 64,
}
"""A log file of some ten messages and a queue file of ten entries: a simulated disk is read whole."""
ROLLING: Final[Fields] = {
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 400,
    "max_hash_slot_num": 100,
    "max_index_num": 200,
}
"""Log, queues and index roll several times within some hundred messages."""
SMALL: Final[Fields] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 2000,
    "mapped_file_size_consume_queue_ext": 4096,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
}
"""Queues roll; one log file is enough for a test."""
SMALL_LOG: Final = {"mappedFileSizeCommitLog": str(64 << 20)}
"""Bolide reserves the disk blocks of a log file when it creates it: 1 GiB with the default."""

QUICK_CHECKS: Final = {
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
    "transactionCheckMax": "1000",
}
"""Open transactions are checked every second. The limit of checks is high because a check without a producer counts."""
PATIENT: Final = {"waitTimeMillsInSendQueue": "60000", "osPageCacheBusyTimeOutMills": "60000"}
"""The broker rejects no send because a busy machine stalled."""
NEVER_BUSY: Final = {"brokerFastFailureEnable": "false", "osPageCacheBusyTimeOutMills": "60000"}
"""The broker rejects no send because of its waiting time. By default Java's broker rejects a send after 200 ms, e.g.
while it creates a topic or a log file on a slow disk. Clients of 4.9 do not retry, and a retry uses another queue."""


def by_key(fields: Fields) -> dict[str, str]:
    """Return settings by field name as settings by RocketMQ's keys."""
    return {java_key(name): str(value).lower() for name, value in fields.items()}


def shape_of(fields: Fields, **more: Any) -> StoreShape:
    """Return the shape of a store with these sizes and `more` fields of `ShapeOptions`."""
    return StoreShape.of(ShapeOptions(**{**fields, **more}))
