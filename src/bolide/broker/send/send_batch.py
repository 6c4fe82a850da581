"""A batch of messages in one SEND. Each becomes a record. All are in one log file, with consecutive queue offsets.

From SendMessageProcessor.sendBatchMessage and MessageExtEncoder.encode for batches (docs/protocol/behaviour.md 2,
docs/protocol/store.md 2 "Batch"). The properties the broker adds to a single message are not added to the elements.
"""

from __future__ import annotations

from typing import final

from bolide.broker.append.light_queues import LightQueueGate
from bolide.broker.append.log_writer import LogWriter, delay_level, refuse_zeros
from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome, Parked, Reply
from bolide.broker.core.stats import BrokerStats
from bolide.broker.refused import illegal
from bolide.broker.tables.topic_config import MULTI_TAG, TopicConfig
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_id import offset_message_id
from bolide.layout.message_properties import MessageProperties, stored_properties
from bolide.layout.sysflag import MULTI_TAGS, TRANSACTION_MASK
from bolide.remoting.batch import BatchMessage, decode_batch
from bolide.remoting.command import Command
from bolide.remoting.errors import BodyError
from bolide.remoting.headers.send import SendHeader
from bolide.remoting.response_bytes import SendResponse, SendResponses


@final
class BatchSend:
    """Stores batches through the same append path as single messages."""

    def __init__(
        self, writer: LogWriter, gate: LightQueueGate, responses: SendResponses, stats: BrokerStats, most: int
    ) -> None:
        self._writer: LogWriter = writer
        self._gate: LightQueueGate = gate
        self._responses: SendResponses = responses
        self._stats: BrokerStats = stats
        self._most: int = most

    def send(
        self, channel: Channel, command: Command, header: SendHeader, topic: TopicConfig, queue_id: int, now: int
    ) -> Outcome:
        """Store all elements or none. The response contains the offset message ids of all and the first queue
        offset."""
        sys_flag = header.sys_flag
        of_batch = MessageProperties(header.properties or "")
        of_batch.scan()
        if sys_flag & TRANSACTION_MASK or delay_level(of_batch) > 0 or of_batch.transactional:
            raise illegal("delay levels and transactions are not allowed in a batch: send such messages one by one")
        most = int(self._writer.store.log.max_message_size)
        if len(command.body) > most:
            raise illegal(f"the batch has {len(command.body)} bytes, more than {most}: split it")
        try:
            elements = decode_batch(command.body, self._most)
        except BodyError as error:
            raise illegal(str(error)) from error
        if not elements:
            raise illegal("the batch is empty: send at least one message")
        if topic.topic_filter_type == MULTI_TAG:
            sys_flag |= MULTI_TAGS
        messages: list[BrokerMessage] = []
        for element in elements:
            message = self._message(command, element, topic, queue_id, header.born_timestamp, channel.remote_host)
            message.sys_flag = sys_flag
            message.reconsume_times = header.reconsume_times or 0
            messages.append(message)
        stored = self._writer.put_batch(messages, now)
        size = 0
        for one in stored:
            size += one.size
        self._stats.put(len(stored), size)
        host = self._writer.store_host
        ids = ",".join([offset_message_id(host, one.physical_offset) for one in stored])
        response = SendResponse(
            self._responses,
            command,
            ids,
            queue_id=queue_id,
            queue_offset=stored[0].queue_offset,
            transaction_id=of_batch.uniq_key,
        )
        return Parked(Reply(response), stored[len(stored) - 1].end_offset, of_batch.wait)

    def _message(
        self,
        command: Command,
        element: BatchMessage,
        topic: TopicConfig,
        queue_id: int,
        born_timestamp: int,
        born_host: bytes,
    ) -> BrokerMessage:
        """Return the message of one element. Raises `Refused` 13 for an element with a feature that batches do not
        support."""
        properties = stored_properties(element.properties)
        properties.scan()
        refuse_zeros(properties.text, True)
        if properties.transactional or properties.timer or delay_level(properties) > 0:
            raise illegal("a message of the batch has a delay or belongs to a transaction: send it alone")
        if properties.multi and self._writer.multi_dispatch:
            self._gate.check(command, topic.topic_name, properties.multi)
        message = BrokerMessage(
            topic.topic_name, topic.topic_bytes, queue_id, element.body, properties, born_timestamp, born_host
        )
        message.flag = element.flag
        message.encoded_properties = element.properties
        return message
