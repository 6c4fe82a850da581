"""A batch of messages in one SEND: each becomes its own record, all in one file, with consecutive queue offsets.

From SendMessageProcessor.sendBatchMessage and MessageExtEncoder.encode for batches (docs/protocol/behaviour.md 2,
docs/protocol/store.md 2 "Batch"). The properties the broker adds to a single message are not added to the elements.
"""

from __future__ import annotations

from typing import Any, final

from bolide.broker.append.light_queues import LightQueueGate, entering
from bolide.broker.append.log_writer import LogWriter, PropertyScan, scan_properties
from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome, Parked, Reply
from bolide.broker.core.stats import BrokerStats, count
from bolide.broker.refused import illegal
from bolide.broker.tables.topics import MULTI_TAG, TopicConfig
from bolide.layout.message_id import offset_message_id
from bolide.layout.properties import text_of
from bolide.layout.sysflag import MULTI_TAGS, TRANSACTION_MASK
from bolide.remoting.batch import BatchMessage, decode_batch
from bolide.remoting.codes import BINARY_TYPE, SUCCESS
from bolide.remoting.command import Command
from bolide.remoting.errors import BodyError
from bolide.remoting.response_bytes import encode_send_response
from bolide.store.put import Put


@final
class BatchSend:
    """Stores batches through the same door as single messages."""

    def __init__(
        self, writer: LogWriter, gate: LightQueueGate, region: str, trace_on: bool, stats: BrokerStats, most: int
    ) -> None:
        self._writer: LogWriter = writer
        self._gate: LightQueueGate = gate
        self._region: str = region
        self._trace_on: bool = trace_on
        self._stats: BrokerStats = stats
        self._most: int = most

    def send(
        self, channel: Channel, command: Command, header: Any, topic: TopicConfig, queue_id: int, now: int
    ) -> Outcome:
        """Store all elements or none; the answer names the offset message ids of all and the first queue offset."""
        sys_flag: int = header.sys_flag
        of_batch = scan_properties(header.properties or "")
        if sys_flag & TRANSACTION_MASK or of_batch.delay_level > 0 or of_batch.transactional:
            raise illegal("a batch takes neither delay level nor transaction: send such messages one by one")
        if len(command.body) > self._writer.max_message_size:
            most = self._writer.max_message_size
            raise illegal(f"the batch has {len(command.body)} bytes, more than {most}: split it")
        try:
            elements = decode_batch(command.body, self._most)
        except BodyError as error:
            raise illegal(str(error)) from error
        if not elements:
            raise illegal("the batch holds no message: send at least one")
        if topic.topic_filter_type == MULTI_TAG:
            sys_flag |= MULTI_TAGS
        sys_flag = self._writer.host_flags(sys_flag, channel.remote_host)
        puts: list[Put] = []
        for element in elements:
            found = scan_properties(text_of(element.properties))
            if found.delay_level > 0 or found.transactional or found.timer:
                raise illegal("a message of the batch asks for delay or transaction: send it alone")
            light: list[str] | None = None
            if self._writer.multi_dispatch and (found.multi or found.multi_offsets):
                self._gate.check(topic.topic_name, found.multi)
                text, light = entering(topic.topic_name, found.multi, text_of(element.properties))
                element.properties = text.encode()
            self._writer.check(topic.topic_name, queue_id, element.body, element.properties)
            puts.append(self._put(channel, header, topic, queue_id, sys_flag, element, found, of_batch.wait, light))
        stored = self._writer.store.append_batch(puts, now)
        size = 0
        for one in stored:
            size += one.size
        self._stats.put(len(stored), size)
        count(self._writer.puts, topic.topic_name, len(stored), size)
        host = self._writer.store_host
        ids = ",".join([offset_message_id(host, one.physical_offset) for one in stored])
        frame = encode_send_response(
            command.opaque,
            SUCCESS,
            ids,
            queue_id,
            stored[0].queue_offset,
            of_batch.uniq_key,
            self._region,
            self._trace_on,
            "",
            command.serialize_type == BINARY_TYPE,
        )
        return Parked(Reply(None, frame), stored[len(stored) - 1].end_offset, of_batch.wait)

    def _put(
        self,
        channel: Channel,
        header: Any,
        topic: TopicConfig,
        queue_id: int,
        sys_flag: int,
        element: BatchMessage,
        found: PropertyScan,
        wait: bool,
        light: list[str] | None,
    ) -> Put:
        return Put(
            topic.topic_name,
            topic.topic_bytes,
            queue_id,
            element.body,
            element.properties,
            header.born_timestamp,
            channel.remote_host,
            self._writer.store_host,
            element.flag,
            sys_flag,
            header.reconsume_times or 0,
            0,
            found.uniq_key,
            found.keys,
            found.tags,
            self._writer.tags_code(found.tags),
            wait,
            0,
            light,
        )
