"""Op records: each names decided half messages by their offsets in the half queue.

RocketMQ's TransactionalMessageBridge. The message of a decision precedes its op record in the same append.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.transactions.half_messages import HalfMessages
from bolide.broker.transactions.renewals import Half
from bolide.layout import property_names as names
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_properties import MessageProperties
from bolide.layout.names import OP_HALF_TOPIC

OP_TAG: Final = "d"
OPS_AT_ONCE: Final = 200
"""Half offsets named by one op record: 200 numbers of up to 19 digits stay below 4096 characters."""


class OpRecords:
    """Creates and writes the op records of one broker."""

    def __init__(self, writer: LogWriter, halves: HalfMessages) -> None:
        self.writer = writer
        self.halves = halves
        self._store = writer.store
        self._properties = MessageProperties(f"{names.TAGS}\x01{OP_TAG}\x02{names.WAIT}\x01true\x02")

    def record(self, halves: list[Half], now: int) -> BrokerMessage:
        """Return the op record that marks these half messages as decided.

        4.9 reads a record as one number, and ignores a record that it cannot parse.
        """
        if not self._store.shape.halves_per_op_record:
            body = b"%d" % halves[0].queue_offset
        else:
            body = b"".join(b"%d," % half.queue_offset for half in halves)
        born, host = int(self._store.times.wall(now)), self.writer.store_host
        return BrokerMessage(OP_HALF_TOPIC, OP_HALF_TOPIC.encode(), 0, body, self._properties, born, host)

    def write(self, halves: list[Half], now: int) -> None:
        """Write op records for half messages whose decision stores no other record."""
        at_once = OPS_AT_ONCE if self._store.shape.halves_per_op_record else 1
        for first in range(0, len(halves), at_once):
            part = halves[first : first + at_once]
            end = self.writer.put_together([self.record(part, now)], now)[0].end_offset
            for half in part:
                self.halves.decide(half, end)
