"""Finds messages by key or unique id through the index (QUERY_MESSAGE 12), and by offset (VIEW_MESSAGE_BY_ID 33).

docs/protocol/behaviour.md 5. Bodies are consecutive stored records. They include hash collisions, so the client checks
topic and keys again, as Java's does. A collision in a topic that the sender may not read is omitted.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.found import check_record, may_touch, topics_of
from bolide.broker.options.composed import BrokerOptions
from bolide.layout.record import decode_record
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.query import QueryMessageRequestHeader, ViewMessageRequestHeader
from bolide.remoting.request_access import QUERY, VIEW
from bolide.remoting.request_routes import DiskReads, Kind, Route
from bolide.store.message_store import MessageStore

UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
TAG_INDEX: Final = "T"


class QueryService(Service):
    """Serves the two reads that bypass the queues."""

    def __init__(self, options: BrokerOptions, store: MessageStore) -> None:
        self._store = store
        self._max_found = options.operator.max_msgs_num_batch
        self._max_unique = options.operator.default_query_max_num

    def routes(self) -> Routes:
        return [
            Route(
                codes.QUERY_MESSAGE,
                QueryMessageRequestHeader,
                self.on_query_message,
                Kind.READ,
                reads=DiskReads.MANY,
                ordinary=frozenset({codes.QUERY_NOT_FOUND}),
                access=QUERY,
            ),
            Route(
                codes.VIEW_MESSAGE_BY_ID,
                ViewMessageRequestHeader,
                self.on_view_message,
                Kind.READ,
                reads=DiskReads.STEPWISE,
                access=VIEW,
            ),
        ]

    def on_query_message(
        self, channel: Channel, command: Command, header: QueryMessageRequestHeader, now: int
    ) -> Outcome:
        unique = command.ext().get(UNIQUE_KEY_QUERY, "").lower() == "true"
        max_count = min(self._max_unique if unique else header.max_num, self._max_found)
        key = header.key
        if header.index_type == TAG_INDEX:
            key = TAG_INDEX + "#" + key
        found = self._store.query_messages(header.topic, key, max_count, header.begin_timestamp, header.end_timestamp)
        ext = {
            "indexLastUpdateTimestamp": str(found.last_update_timestamp),
            "indexLastUpdatePhyoffset": str(found.last_update_physical_offset),
        }
        records = [record for record in found.records if _may_read(command, header.topic, record)]
        if not records:
            remark = "can not find message, maybe time range not correct"
            return reply(make_response(command, codes.QUERY_NOT_FOUND, remark, ext))
        return reply(make_response(command, codes.SUCCESS, ext=ext, body=b"".join(records)))

    def on_view_message(
        self, channel: Channel, command: Command, header: ViewMessageRequestHeader, now: int
    ) -> Outcome:
        record = self._store.record_bytes(header.offset)
        if record is None:
            remark = f"can not find message by the offset, {header.offset}"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        check_record(command, record)
        return reply(make_response(command, codes.SUCCESS, body=record))


def _may_read(command: Command, topic: str, stored: bytes) -> bool:
    """Check a record of another topic whose key has the same hash. The authorizer checked only the requested topic."""
    if command.permit is None:
        return True
    record = decode_record(stored, 0)
    return record.topic == topic or may_touch(command, topics_of(record))
