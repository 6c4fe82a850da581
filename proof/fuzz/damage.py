"""Damage to the files of a small store, decided by bytes: which file, where, and what was done to it."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

from bolide.layout.broker_message import BrokerMessage
from bolide.layout.hashes import tags_code
from bolide.layout.message_id import encode_host
from bolide.layout.message_properties import MessageProperties
from bolide.layout.shape import StoreShape
from bolide.store.message_store import MessageStore
from bolide.store.options import StoreOptions
from bolide.testing.files import SimulatedFiles
from proof.fuzz.choices import Choices

ROOT: Final = "/s"
NOW: Final = 1_800_000_000_000
TOPICS: Final = ("T", "U", "%RETRY%g")
MESSAGES: Final = 36
SHAPE: Final = StoreShape(
    commit_log_segment_size=2048,
    consume_queue_segment_size=200,
    consume_queue_ext_segment_size=256,
    enable_consume_queue_ext=True,
    index_slots=8,
    index_entries=24,
)
OPTIONS: Final = StoreOptions(flush_disk_type="ASYNC_FLUSH")
HOST: Final = encode_host("127.0.0.1", 10911)


def message(topic: str, number: int) -> BrokerMessage:
    """A message with tags and keys."""
    text = f"TAGS\x01t{number % 3}\x02KEYS\x01k{number}\x02UNIQ_KEY\x01u{number}\x02"
    made = BrokerMessage(topic, topic.encode(), number % 2, b"body %d" % number * 4, MessageProperties(text), NOW, HOST)
    made.store_host = HOST
    made.encoded_properties = text.encode()
    made.tags_code = tags_code(f"t{number % 3}")
    return made


def open_store(files: SimulatedFiles) -> MessageStore:
    """The store in these files, not loaded yet."""
    return MessageStore(files, ROOT, SHAPE, OPTIONS)


def append_some(store: MessageStore, count: int, now: int) -> None:
    """Append, write and dispatch messages."""
    for number in range(count):
        store.append(message(TOPICS[number % len(TOPICS)], number), now + number)
    store.write_pending()
    store.dispatch(1 << 16, now + count)


@functools.cache
def small_stores() -> tuple[SimulatedFiles, ...]:
    """Stores of some files each: closed, and left by a kill."""
    made = []
    for clean in (True, False):
        files = SimulatedFiles()
        files.make_dir(ROOT)
        store = open_store(files)
        store.load(NOW)
        append_some(store, MESSAGES, NOW)
        if clean:
            store.close(NOW + 1000)
        else:
            store.maintenance.close(False, NOW + 1000)
            files.process_crash()
        made.append(files)
    return tuple(made)


def paths_of(files: SimulatedFiles, folder: str = ROOT) -> list[str]:
    """Every file, in the order of the names."""
    found: list[str] = []
    for name in files.list_dir(folder):
        path = f"{folder}/{name}"
        found += [path] if files.size(path) >= 0 else paths_of(files, path)
    return found


def damage(files: SimulatedFiles, paths: list[str], choices: Choices) -> str:
    """Do one thing to one of the files; returns what."""
    path = choices.pick(paths)
    data = files.read_file(path)
    if data is None:
        return "nothing"
    kind = choices.below(10)
    at = int.from_bytes((choices.byte(), choices.byte()), "big") % (len(data) + 1)
    if kind == 0:
        files.remove(path)
        return f"{path} removed"
    if kind == 1:
        files.rename(path, path + choices.pick(("x", ".bak", "0", " ")))
        return f"{path} renamed"
    odd = choices.number() if choices.flag() else 0
    changed = {
        2: lambda: data[:at],
        3: lambda: data[:at] + bytes(len(data) - at),
        4: lambda: data[:at] + bytes([data[at] ^ 1 << choices.below(8)]) + data[at + 1 :] if at < len(data) else data,
        5: lambda: data[:at] + choices.piece(64) + data[at:],
        6: lambda: data[:at] + data[at + choices.below(64) :],
        7: lambda: data + choices.piece(),
        8: lambda: data[:at] + _number(odd, 8) + data[at + 8 :],
        9: lambda: choices.piece(),
    }.get(kind, lambda: data)()
    if choices.byte() % 2:
        changed = changed[: len(data)].ljust(len(data), b"\0")  # a damaged file of the old length is the harder case
    replace(files, path, changed)
    return f"{path} changed by {kind} at {at}"


def replace(files: SimulatedFiles, path: str, data: bytes) -> None:
    """Let a file hold these bytes."""
    handle = files.open(path, True)
    files.truncate(handle, 0)
    if data:
        files.write_at(handle, [data], 0)
    files.datasync(handle)
    files.close(handle)


def _number(value: int, width: int) -> bytes:
    return (value & (1 << 8 * width) - 1).to_bytes(width, "big")


def seeds(files: SimulatedFiles) -> Iterable[bytes]:
    """One damage of each kind to each file."""
    for which in range(2):
        for number in range(len(paths_of(files))):
            for kind in range(10):
                yield bytes([which, 0, number, kind, 0, number * 7 % 256, 3, 60, 255, 255, 0, 1])
