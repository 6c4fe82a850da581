"""Transactions: end (37), check with the producer (39), abandon, and resume (323).

docs/protocol/behaviour.md 4 (EndTransactionProcessor). One difference: END_TRANSACTION has no second effect on a
decided half message, even if a check stored it again; Java would store the message twice.

The message that ends a half message (committed, renewed or abandoned) and the op record that names it are one append:
the log has both or neither. The message precedes the op record. So a power failure within that write leaves at worst
only the message at the end of the log, where `HalfMessages` finds it.
"""

from __future__ import annotations

import logging
from typing import Final

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.outcome import NOTHING, Cold, Outcome, Parked, reply
from bolide.broker.core.role import Role
from bolide.broker.core.service import Routes, Service
from bolide.broker.found import check_found, topics_of
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import TRANSACTIONS_AT_MASTER, illegal
from bolide.broker.tables.clients import Clients
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.topics import TopicTable
from bolide.broker.transactions.half_checks import HalfChecks
from bolide.broker.transactions.half_messages import HalfMessages
from bolide.broker.transactions.half_records import immunity_ms, misplaced, real_place, renewal
from bolide.broker.transactions.op_records import OpRecords
from bolide.layout import property_names as names
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_id import decode_offset_message_id
from bolide.layout.message_properties import MessageProperties, stored_properties
from bolide.layout.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from bolide.layout.record import Record, copy_of
from bolide.layout.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK
from bolide.remoting import codes, request_access
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.transactions import (
    EndTransactionRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from bolide.remoting.request_routes import Kind, Route

UNKNOWN: Final = 0
COMMIT: Final = 8
ROLLBACK: Final = 12
MAX_RESUMED: Final = 10_000
IMMUNITY: Final = names.CHECK_IMMUNITY_TIME_IN_SECONDS


class TransactionService(Service):
    """Ends transactions and checks pending ones."""

    def __init__(
        self,
        options: BrokerOptions,
        writer: LogWriter,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        clients: Clients,
        effects: Effects,
        start: int,
        log: logging.Logger | None = None,
    ) -> None:
        """`log`: reports half messages that cannot be processed."""
        self._options = options
        self._store = store = writer.store
        self._writer = writer
        self.halves = HalfMessages(store, offsets)
        self._most = options.transactions.max_open_transactions
        self._ops = OpRecords(writer, self.halves)
        self._checks = HalfChecks(options, self._ops, clients, topics, effects, self, start, log)
        self._resumed: dict[int, int] = {}
        """Physical offset of an abandoned message -> physical end of the half message with which it was resumed."""
        store.on_taken_back.append(self._taken_back)

    def begin(self, now: int) -> None:
        """Read the half queue and the op queue, and write missing op records. Called before the first request."""
        self._checks.begin(now)

    def due(self, now: int) -> int | None:
        """Return the time (ms) of the next check, or None on a slave: its master asks the producers."""
        return self._checks.due(now)

    def tick(self, now: int, budget: int) -> None:
        """Check half messages, and ask their producers."""
        self._checks.tick(now, budget)

    def routes(self) -> Routes:
        return [
            Route(
                codes.END_TRANSACTION,
                EndTransactionRequestHeader,
                self.on_end,
                Kind.CHANGE,
                needs_replicas=True,  # otherwise it stays pending, and the producer is asked later
                at_master=TRANSACTIONS_AT_MASTER,
                access=request_access.END,
            ),
            Route(
                codes.RESUME_CHECK_HALF_MESSAGE,
                ResumeCheckHalfMessageRequestHeader,
                self.on_resume,
                Kind.CHANGE,
                at_master=TRANSACTIONS_AT_MASTER,
                access=request_access.RESUME,
            ),
        ]

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._options = options
        self._most = options.transactions.max_open_transactions
        self._checks.configure(options)

    def role_changed(self, role: Role, now: int) -> None:
        """Rebuild the state of pending transactions from the log."""
        self.halves.forget()
        self._resumed.clear()
        self._checks.role_changed(now)
        self.begin(now)

    def no_room(self) -> str:
        """Return why no more half messages are accepted, or ""."""
        if self.halves.open_count < self._most:
            return ""
        return f"{self._most} transactions are open, as many as maxOpenTransactions allows: end some of them first"

    def on_end(self, channel: Channel, command: Command, header: EndTransactionRequestHeader, now: int) -> Outcome:
        if header.commit_or_rollback == UNKNOWN:
            return NOTHING
        if header.commit_or_rollback not in (COMMIT, ROLLBACK):
            return reply(make_response(command, codes.SYSTEM_ERROR, "commitOrRollback field wrong"))
        cold = self._store.cold_record(header.commit_log_offset)
        if cold is not None:
            return Cold([cold], lambda later: self.on_end(channel, command, header, later))
        record = self._store.intact_record(header.commit_log_offset)
        if record is None or not self._is_half(record):
            return reply(make_response(command, codes.SYSTEM_ERROR, "Find prepared transaction message failed"))
        check_found(command, topics_of(record))
        properties = stored_properties(record.properties)
        refusal = self._refusal(header, record, properties, now)
        if refusal is not None:
            return reply(make_response(command, *refusal))
        half = self.halves.undecided(record)
        if half is None:
            answer = reply(make_response(command, codes.SUCCESS, "the transaction was decided before"))
            return Parked(answer, self.halves.decision_end(record))
        messages: list[BrokerMessage] = []
        if header.commit_or_rollback == COMMIT:
            messages.append(self._final(record, properties))
        messages.append(self._ops.record([half], now))
        end = self._writer.put_together(messages, now)[-1].end_offset
        self.halves.decide(half, end)
        return Parked(reply(make_response(command, codes.SUCCESS)), end)

    def _is_half(self, record: Record) -> bool:
        """Return whether this is a record of the half queue. Any body may contain bytes that look like one."""
        if record.topic != HALF_TOPIC or record.queue_id != 0:
            return False
        return self._store.holds(HALF_TOPIC, 0, record.queue_offset, record.physical_offset)

    def _refusal(
        self, header: EndTransactionRequestHeader, record: Record, properties: MessageProperties, now: int
    ) -> tuple[int, str] | None:
        custom = properties.get(IMMUNITY)
        if custom and not header.from_transaction_check:
            age = int(self._store.times.wall(now)) - record.born_timestamp
            if age > immunity_ms(custom, self._options.transactions.transaction_time_out):
                return codes.ILLEGAL_OPERATION, "the immunity time of the transaction is over: answer its check instead"
        group = properties.get(names.PGROUP)
        if group is None or group != header.producer_group:
            return codes.SYSTEM_ERROR, "The producer group wrong"
        if record.queue_offset != header.tran_state_table_offset:
            return codes.SYSTEM_ERROR, "The transaction state table offset wrong"
        if record.physical_offset != header.commit_log_offset:
            return codes.SYSTEM_ERROR, "The commit log offset wrong"
        return None

    def _final(self, half: Record, properties: MessageProperties) -> BrokerMessage:
        """Return the final message of a half message, for its real topic. Raises `Refused` 13 if there is no valid
        target."""
        place = real_place(properties)
        if place is None:
            raise illegal(f"{misplaced(properties)}: it is abandoned at its next check")
        properties.drop(names.REAL_TOPIC)
        properties.drop(names.REAL_QID)
        message = copy_of(half, place[0], place[1], properties)
        message.sys_flag = half.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT
        message.prepared_transaction_offset = half.physical_offset
        message.delays = True
        return message

    # -- an operator resumes an abandoned message

    def on_resume(
        self, channel: Channel, command: Command, header: ResumeCheckHalfMessageRequestHeader, now: int
    ) -> Outcome:
        at = decode_offset_message_id(header.msg_id or "")[2]
        cold = self._store.cold_record(at)
        if cold is not None:
            return Cold([cold], lambda later: self.on_resume(channel, command, header, later))
        record = self._store.intact_record(at)
        if record is None or not self._is_given_up(record):
            remark = f"no half message was given up at {header.msg_id}: name one of {TRANS_CHECK_MAX_TIME_TOPIC}"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        check_found(command, topics_of(record))
        properties = stored_properties(record.properties)
        if real_place(properties) is None:
            remark = f"{misplaced(properties)}: it cannot be put back to {HALF_TOPIC}"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        if properties.get(names.PGROUP) is None:
            remark = f"the half message has no property {names.PGROUP}: without a producer group nobody can end it"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        before = self._resumed.get(record.physical_offset)
        if before is not None:
            return Parked(reply(make_response(command, codes.SUCCESS, "it was put back before")), before)
        full = self.no_room()
        if full:
            return reply(make_response(command, codes.SYSTEM_BUSY, full))
        properties.set(names.TRANSACTION_CHECK_TIMES, "0")
        end = self._writer.put(renewal(record, HALF_TOPIC, properties), now).end_offset
        if len(self._resumed) >= MAX_RESUMED:
            self._resumed.pop(next(iter(self._resumed)))
        self._resumed[record.physical_offset] = end
        return Parked(reply(make_response(command, codes.SUCCESS)), end)

    def _is_given_up(self, record: Record) -> bool:
        """Return whether a broker (Bolide or Java) stored this record when it abandoned a half message. Only brokers
        write there."""
        if record.topic != TRANS_CHECK_MAX_TIME_TOPIC:
            return False
        return self._store.holds(record.topic, record.queue_id, record.queue_offset, record.physical_offset)

    def _taken_back(self, written: int) -> None:
        self._resumed = {at: end for at, end in self._resumed.items() if end <= written}
