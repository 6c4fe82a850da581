"""Find messages by id, by key, or by queue and offset (mqadmin's queryMsgById, queryMsgByUniqueKey, queryMsgByKey,
queryMsgByOffset)."""

from __future__ import annotations

from typing import Annotated, Final

from bolide.admin.calls import AdminCalls, ext_of
from bolide.client.consuming.pull import PullRequest, PullStatus, pull
from bolide.client.messages.checked import FROM_ONE, FROM_ZERO, checked_methods
from bolide.client.messages.errors import ResponseError
from bolide.client.messages.moment import Moment, moment_ms
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage, intact_message, received_messages
from bolide.client.messages.subscription import subscription
from bolide.errors import ArgumentError, BolideError
from bolide.layout.errors import MessageIdError, RecordError
from bolide.layout.limits import MAX_FOUND
from bolide.layout.message_id import decode_offset_message_id
from bolide.layout.names import TOOLS_GROUP
from bolide.layout.record import decode_record
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.bodies.running import ConsumeMessageDirectlyResult

MAX_TIME: Final = 2**63 - 1


@checked_methods
class MessageCalls(AdminCalls):
    """Calls on single messages."""

    async def message(self, message_id: str, topic: str | None = None) -> ReceivedMessage | None:
        """Return the message with a producer's or a broker's id, or None if it does not exist.
        Raises `BolideError` if a broker that may have it is unreachable or rejects the request.

        Both ids have the same form. A producer's id is found through the index, which requires the topic.
        """
        if topic is not None:
            found = await self.message_by_unique_id(topic, message_id)
            if found is not None:
                return found
        try:
            host, port, offset = decode_offset_message_id(message_id)
        except MessageIdError:
            return None
        info = await self.cluster_info()
        for name, data in info.broker_addr_table.items():
            # A producer's id also decodes to an address: connect only to brokers' addresses.
            if f"{host}:{port}" in data.broker_addrs.values():
                return await self._view(f"{host}:{port}", name, offset)
        return await self._moved(message_id, offset)

    async def _moved(self, message_id: str, offset: int) -> ReceivedMessage | None:
        """Find a message whose broker had another address when it stored the message. Records contain that address, so
        a record at the same offset of another broker is not mistaken for it. Raises the error of a broker that may have
        the message but did not return its record."""
        failure: BolideError | None = None
        for name, address in (await self.masters()).items():
            try:
                body = await self._record_at(address, offset)
            except BolideError as error:
                failure = failure or error  # this broker may have the message, which must not be reported as missing
                continue
            try:
                found = ReceivedMessage(decode_record(body, 0), name)
            except RecordError:  # no record starts at this offset of its log
                continue
            if found.offset_message_id == message_id.upper():
                return intact_message(body, name)
        if failure is not None:
            raise failure
        return None

    async def message_by_offset_id(self, offset_message_id: str) -> ReceivedMessage | None:
        """Return the message with a broker's id from the broker at the address in the id, or None if it is deleted.
        Raises `ArgumentError` for another id."""
        try:
            host, port, offset = decode_offset_message_id(offset_message_id)
        except MessageIdError as error:
            raise ArgumentError(str(error), "offset_message_id") from None
        return await self._view(f"{host}:{port}", "", offset)

    async def _view(self, address: str, broker_name: str, offset: int) -> ReceivedMessage | None:
        return next(iter(received_messages(await self._record_at(address, offset), broker_name)), None)

    async def _record_at(self, address: str, offset: int) -> bytes:
        """Return the bytes at an offset of a broker's log, or b"" without a record there."""
        accept = (codes.SUCCESS, codes.SYSTEM_ERROR)
        answer = await self.ask(address, codes.VIEW_MESSAGE_BY_ID, ext_of(offset=offset), accept=accept)
        return answer.body if answer.code == codes.SUCCESS else b""

    async def message_by_unique_id(self, topic: str, message_id: str) -> ReceivedMessage | None:
        """Return the newest message with a producer's id, or None. Raises `TopicNotFound`."""
        found, _ = await self._query(topic, message_id, 32, 0, MAX_TIME, "U")
        found = [message for message in found if message.message_id == message_id]
        return max(found, key=lambda message: message.store_timestamp, default=None)

    async def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        max_messages: Annotated[int, FROM_ONE] = 64,
        begin: Moment = 0,
        end: Moment | None = None,
    ) -> list[ReceivedMessage]:
        """Return messages with a business key, stored from `begin` to `end`, oldest first.

        Both are ms since 1970, or datetimes with a zone. Each broker returns at most `max_messages`, and by default
        not more than 64 (maxMsgsNumBatch).
        """
        return (await messages_and_more(self, topic, key, max_messages=max_messages, begin=begin, end=end))[0]

    async def _query(
        self, topic: str, key: str, max_messages: int, begin: int, end: int, kind: str
    ) -> tuple[list[ReceivedMessage], bool]:
        """Return messages found through the index, and whether a broker reached `max_messages` or its own limit."""
        most = min(max_messages, MAX_FOUND)
        found: list[ReceivedMessage] = []
        full = False
        ext = ext_of(
            topic=topic,
            key=key,
            maxNum=max_messages,
            beginTimestamp=begin,
            endTimestamp=end,
            indexType=kind,
            _UNIQUE_KEY_QUERY=kind == "U",
        )
        for name, address in (await self.topic_readers(topic)).items():
            answer = await self.ask(address, codes.QUERY_MESSAGE, ext, accept=(codes.SUCCESS, codes.QUERY_NOT_FOUND))
            if answer.code == codes.SUCCESS:
                # The index compares the hash of topic and key, which messages of other topics may share.
                read = received_messages(answer.body, name)
                found += [each for each in read if each.record.topic == topic]
                full = full or len(read) >= most
        return found, full

    async def message_at(self, queue: MessageQueue, offset: Annotated[int, FROM_ZERO]) -> ReceivedMessage | None:
        """Return the message at an offset of a queue, or None if it does not exist. Raises `TopicNotFound`."""
        return next(iter(await self.messages_at(queue, offset, 1)), None)

    async def messages_at(
        self,
        queue: MessageQueue,
        offset: Annotated[int, FROM_ZERO],
        max_messages: Annotated[int, FROM_ONE] = 32,
    ) -> list[ReceivedMessage]:
        """Return up to `max_messages` messages of a queue, starting at `offset`, independently of any group."""
        return await self._messages_as(TOOLS_GROUP, queue, offset, max_messages)

    async def _messages_as(
        self, group: str, queue: MessageQueue, offset: int, max_messages: int
    ) -> list[ReceivedMessage]:
        """Like `messages_at`, as a member of `group`. Brokers register a group when it pulls, and only then store its
        offsets."""
        await self._client.route(queue.topic)
        wanted = subscription(queue.topic, "*", self._client.world.wall_ms())
        request = PullRequest(group, queue, offset, wanted, max_messages, suspend=0, send_subscription=True)
        try:
            result = await pull(self._client, request)
        except ResponseError as error:
            if error.code == codes.TOPIC_NOT_EXIST:
                self._client.routes.pop(queue.topic, None)
            raise
        if result.status is not PullStatus.FOUND:
            return []
        return [message for message in result.messages if message.queue_offset >= offset]

    async def consume_directly(
        self, group: str, client_id: str, message: ReceivedMessage
    ) -> ConsumeMessageDirectlyResult:
        """Make one member of a group process a stored message now; return its result. Does not change offsets.

        Raises `ResponseError` if the member is not connected or does not respond.
        """
        ext = ext_of(
            consumerGroup=group,
            clientId=client_id,
            msgId=message.offset_message_id,
            brokerName=message.broker_name,
            topic=message.record.topic,
        )
        answer = await self.ask(await self.master_of(message.queue), codes.CONSUME_MESSAGE_DIRECTLY, ext)
        return decode_answer(answer.body, ConsumeMessageDirectlyResult)


async def messages_and_more(
    admin: MessageCalls,
    topic: str,
    key: str,
    *,
    max_messages: int,
    begin: Moment = 0,
    end: Moment | None = None,
) -> tuple[list[ReceivedMessage], bool]:
    """Like `messages_by_key`, but also return whether a broker reached a limit, so that there may be more."""
    until = MAX_TIME if end is None else moment_ms("end", end)
    found, full = await admin._query(topic, key, max_messages, moment_ms("begin", begin), until, "K")
    with_key = [message for message in found if key in message.keys]
    return sorted(with_key, key=lambda message: (message.store_timestamp, message.queue_offset)), full
