"""SEND_MESSAGE_V2 requests, as a mapping for hooks and as a ready frame for speed (docs/protocol/remoting.md 1, 2, 6).

The frame is put together from bytes worked out once per queue; only what differs from message to message is formatted.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import msgspec

from bolide.client.messages.queue import MessageQueue
from bolide.layout.names import AUTO_CREATE_TOPIC
from bolide.remoting import codes

_LENGTHS: Final = Struct(">II")
_text: Final = msgspec.json.encode
_cache: dict[tuple[str, MessageQueue, int, bool], bytes] = {}


def send_ext(
    group: str,
    queue: MessageQueue,
    queue_count: int,
    sys_flag: int,
    born_timestamp: int,
    flag: int,
    properties: str,
    *,
    batch: bool = False,
    reconsume_times: int = 0,
    max_reconsume_times: int | None = None,
) -> dict[str, str]:
    """The fields of a send request by their names on the wire."""
    ext = {
        "a": group,
        "b": queue.topic,
        "c": AUTO_CREATE_TOPIC,
        "d": str(queue_count),
        "e": str(queue.queue_id),
        "f": str(sys_flag),
        "g": str(born_timestamp),
        "h": str(flag),
        "i": properties,
        "j": str(reconsume_times),
        "k": "false",
        "m": "true" if batch else "false",
        "n": queue.broker_name,
    }
    if max_reconsume_times is not None:
        ext["l"] = str(max_reconsume_times)
    return ext


def _head(group: str, queue: MessageQueue, queue_count: int, batch: bool) -> bytes:
    ext = send_ext(group, queue, queue_count, 0, 0, 0, "", batch=batch)
    for changing in "fghi":
        del ext[changing]
    fields = msgspec.json.encode(ext)[1:-1]
    code = codes.SEND_BATCH_MESSAGE if batch else codes.SEND_MESSAGE_V2
    return b'{"code":%d,"extFields":{%b,"f":"' % (code, fields)


def send_frame(
    opaque: int,
    group: str,
    queue: MessageQueue,
    queue_count: int,
    sys_flag: int,
    born_timestamp: int,
    flag: int,
    properties: str,
    body: bytes,
    batch: bool,
) -> bytes:
    """A whole request frame; equal in meaning to `send_ext` in a JSON header."""
    key = (group, queue, queue_count, batch)
    head = _cache.get(key)
    if head is None:
        if len(_cache) > 50_000:  # topics come and go; what is still in use is worked out again
            _cache.clear()
        head = _cache[key] = _head(group, queue, queue_count, batch)
    header = (
        b'%b%d","g":"%d","h":"%d","i":%b},"flag":0,"language":"PYTHON","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":%d}'
        % (
            head,
            sys_flag,
            born_timestamp,
            flag,
            _text(properties),
            opaque,
            codes.VERSION_5_5_0,
        )
    )
    size = len(header)
    return b"%b%b%b" % (_LENGTHS.pack(4 + size + len(body), size), header, body)
