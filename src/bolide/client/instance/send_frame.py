"""SEND_MESSAGE_V2 requests, as a mapping for hooks and as a ready frame for speed (docs/protocol/remoting.md 1, 2, 6).

A frame consists of bytes that are computed once per queue, and the formatted fields that differ between messages.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

import msgspec

from bolide.client.messages.queue import MessageQueue
from bolide.layout.names import AUTO_CREATE_TOPIC
from bolide.remoting import codes
from bolide.remoting.headers.send import SendMessageRequestHeaderV2

_LENGTHS: Final = Struct(">II")
_text: Final = msgspec.json.encode
_cache: dict[tuple[str, MessageQueue, int, bool], bytes] = {}


def send_header(group: str, queue: MessageQueue, queue_count: int, sys_flag: int = 0) -> SendMessageRequestHeaderV2:
    """Return the header of a send to this queue; the caller sets born timestamp, flag and properties."""
    given: Any = queue  # the id of a user's queue may be a numpy number
    return SendMessageRequestHeaderV2(
        producer_group=group,
        topic=queue.topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=queue_count,
        queue_id=given.queue_id,
        sys_flag=sys_flag,
        born_timestamp=0,
        flag=0,
        properties="",
        reconsume_times=0,
        unit_mode=False,
        batch=False,
        broker_name=queue.broker_name,
    )


def code_of(header: SendMessageRequestHeaderV2) -> int:
    """Return the request code of a send."""
    return codes.SEND_BATCH_MESSAGE if header.batch else codes.SEND_MESSAGE_V2


def _head(group: str, queue: MessageQueue, queue_count: int, batch: bool) -> bytes:
    header = send_header(group, queue, queue_count)
    header.batch = batch
    ext = header.to_ext()
    for changing in "fghi":
        del ext[changing]
    fields = msgspec.json.encode(ext)[1:-1]
    return b'{"code":%d,"extFields":{%b,"f":"' % (code_of(header), fields)


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
    """Return a complete request frame, equal in meaning to `send_header` in a JSON header."""
    key = (group, queue, queue_count, batch)
    head = _cache.get(key)
    if head is None:
        if len(_cache) > 50_000:  # drops old topics; heads of other topics are recomputed
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
