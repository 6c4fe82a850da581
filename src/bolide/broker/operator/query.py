"""Finding messages: by key or unique id through the index (QUERY_MESSAGE 12), by offset (VIEW_MESSAGE_BY_ID 33).

docs/protocol/behaviour.md 5. Bodies are stored records back to back; hash collisions are among them and the client
checks topic and keys again, as Java's does.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Handler, Outcome, reply
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.query import QueryMessageRequestHeader, ViewMessageRequestHeader
from bolide.store.message_store import MessageStore

UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
DEFAULT_QUERY_MAX: Final = 32
TAG_INDEX: Final = "T"


class QueryService:
    """Serves the two reads that go past the queues."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def handlers(self) -> dict[int, Handler]:
        return {codes.QUERY_MESSAGE: self.on_query_message, codes.VIEW_MESSAGE_BY_ID: self.on_view_message}

    def on_query_message(self, channel: Channel, command: Command, now: int) -> Outcome:
        header = decode_header(command, QueryMessageRequestHeader)
        unique = command.ext().get(UNIQUE_KEY_QUERY, "").lower() == "true"
        max_count = DEFAULT_QUERY_MAX if unique else header.max_num
        key = header.key
        if header.index_type == TAG_INDEX:
            key = TAG_INDEX + "#" + key
        found = self._store.query_messages(header.topic, key, max_count, header.begin_timestamp, header.end_timestamp)
        ext = {
            "indexLastUpdateTimestamp": str(found.last_update_timestamp),
            "indexLastUpdatePhyoffset": str(found.last_update_physical_offset),
        }
        if not found.records:
            remark = "can not find message, maybe time range not correct"
            return reply(make_response(command, codes.QUERY_NOT_FOUND, remark, ext))
        return reply(make_response(command, codes.SUCCESS, ext=ext, body=b"".join(found.records)))

    def on_view_message(self, channel: Channel, command: Command, now: int) -> Outcome:
        header = decode_header(command, ViewMessageRequestHeader)
        record = self._store.record_bytes(header.offset)
        if record is None:
            remark = f"can not find message by the offset, {header.offset}"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        return reply(make_response(command, codes.SUCCESS, body=record))
