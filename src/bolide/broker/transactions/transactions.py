"""Transactions: ending them (37), asking producers that did not (39), giving up, and taking up again (323).

docs/protocol/behaviour.md 4 (EndTransactionProcessor). One difference: END_TRANSACTION has no second effect on a
decided half message, also after a check stored it again; Java would store the message twice.

The message that ends a half message (committed, renewed or given up) and the op record that names it are one append:
the log has both or neither. The message comes first, so a power cut in the middle of that write leaves at worst the
message alone at the end of the log, where `HalfMessages` finds it.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from librt.strings import BytesWriter

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.options import BrokerOptions
from bolide.broker.core.outcome import NOTHING, Cold, Outcome, Parked, reply
from bolide.broker.core.role import Role
from bolide.broker.core.service import Routes, Service
from bolide.broker.refused import TRANSACTIONS_AT_MASTER, illegal, response_code
from bolide.broker.tables.clients import Client, Clients
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.topics import TopicTable
from bolide.broker.transactions.half_messages import Half, HalfMessages
from bolide.broker.transactions.half_records import check_times, immunity_ms, misplaced, real_place, renewal
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_id import decode_offset_message_id
from bolide.layout.message_properties import MessageProperties, stored_properties
from bolide.layout.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from bolide.layout.permissions import PERM_READ_WRITE
from bolide.layout.record import Record, copy_of, encode_record
from bolide.layout.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK
from bolide.remoting import codes, request_access
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.headers.decode import java_int
from bolide.remoting.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from bolide.remoting.request_routes import Kind, Route
from bolide.store.disk.files import FileFailed

UNKNOWN: Final = 0
COMMIT: Final = 8
ROLLBACK: Final = 12
OP_TAG: Final = "d"
OPS_AT_ONCE: Final = 200
"""Half offsets named by one op record: 200 numbers of up to 19 digits stay below 4096 characters."""
CHECKS_AT_ONCE: Final = 100
"""Half messages checked in one tick; each may be stored again and asked about."""
BYTES_AT_ONCE: Final = 2 * 1024 * 1024
"""Bytes read after which a tick ends: a round over large messages must not fill the memory."""
LOOK_INTERVAL_MS: Final = 1_000
ASK_PAUSE_MS: Final = 10
"""Pause between two checks whether half messages are on disk, so that their producers can be asked."""
MAX_RESUMED: Final = 10_000
PRODUCERS_TRIED: Final = 3
IMMUNITY: Final = names.CHECK_IMMUNITY_TIME_IN_SECONDS


class TransactionService(Service):
    """Ends transactions and asks about those that do not end."""

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
        """`log` is a logger for half messages that cannot be dealt with."""
        self._options = options
        self._store = store = writer.store
        self._writer = writer
        self._topics = topics
        self._clients = clients
        self._effects = effects
        self.halves = HalfMessages(store, offsets)
        self._most = options.max_open_transactions
        self._next_check = start + options.transaction_check_interval
        self._next_look = start + LOOK_INTERVAL_MS
        self._sweep: list[int] = []
        self._loading = False
        self._unreadable = -1
        """The half message checked last, when its record cannot be read."""
        self._loaded_for = -1
        """The half message whose record was loaded last: a second load is not waited for."""
        """Half offsets this round of checks has not looked at yet, the oldest last."""
        self._questions: deque[Half] = deque()
        """Half messages stored again; their producers are asked once they are on disk."""
        self._resumed: dict[int, int] = {}
        """Physical offset of what was given up -> physical end of the half message it was taken up as."""
        self._op_properties = MessageProperties(f"{names.TAGS}\x01{OP_TAG}\x02{names.WAIT}\x01true\x02")
        self._log = log
        self._said = False
        """True when this round of checks has logged a problem."""
        store.on_taken_back.append(self._taken_back)

    def begin(self, now: int) -> None:
        """Called before the first request: read what is decided, and write the op records that are owed. They follow
        the end of the log then: after another record, a second power cut could take them away unnoticed. The first tick
        tries again what cannot be done now.
        """
        if not self._writer.role.may_check:
            return
        try:
            self.halves.catch_up()
        except FileFailed as error:
            self._say(f"transactions cannot be read yet: {error}")
            return
        self._pay(now)

    def routes(self) -> Routes:
        return [
            Route(
                codes.END_TRANSACTION,
                EndTransactionRequestHeader,
                self.on_end,
                Kind.CHANGE,
                needs_replicas=True,  # else it stays undecided, and the producer is asked later
                at_master=TRANSACTIONS_AT_MASTER,
                access=request_access.RECALL,
            ),
            Route(
                codes.RESUME_CHECK_HALF_MESSAGE,
                ResumeCheckHalfMessageRequestHeader,
                self.on_resume,
                Kind.CHANGE,
                at_master=TRANSACTIONS_AT_MASTER,
                access=request_access.UPDATE_TOPIC,
            ),
        ]

    def configure(self, options: BrokerOptions) -> None:
        """Take over what may change while the broker runs."""
        self._options = options
        self._most = options.max_open_transactions

    def role_changed(self, role: Role, now: int) -> None:
        """What a master knew of open transactions is read again from the log by the next one."""
        self.halves.forget()
        self._sweep = []
        self._questions.clear()
        self._resumed.clear()
        self._next_check = now + self._options.transaction_check_interval
        self.begin(now)

    def no_room(self) -> str:
        """Why no half message more is taken now; "" while there is room."""
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
        record = self._store.record_at(header.commit_log_offset)
        if record is None or not self._is_half(record):
            return reply(make_response(command, codes.SYSTEM_ERROR, "Find prepared transaction message failed"))
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
        messages.append(self._op([half], now))
        end = self._writer.put_together(messages, now)[-1].end_offset
        self.halves.decide(half, end)
        return Parked(reply(make_response(command, codes.SUCCESS)), end)

    def _is_half(self, record: Record) -> bool:
        """True for a record of the half queue; bytes that look like one may lie in any body."""
        if record.topic != HALF_TOPIC or record.queue_id != 0:
            return False
        return self._store.holds(HALF_TOPIC, 0, record.queue_offset, record.physical_offset)

    def _refusal(
        self, header: EndTransactionRequestHeader, record: Record, properties: MessageProperties, now: int
    ) -> tuple[int, str] | None:
        custom = properties.get(IMMUNITY)
        if custom and not header.from_transaction_check:
            age = int(self._store.times.wall(now)) - record.born_timestamp
            if age > immunity_ms(custom, self._options.transaction_time_out):
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
        """The message of a half one, for its own topic. Raises `Refused` 13 when there is no such place."""
        place = real_place(properties)
        if place is None:
            raise illegal(f"{misplaced(properties)}: it is given up at its next check")
        properties.drop(names.REAL_TOPIC)
        properties.drop(names.REAL_QID)
        message = copy_of(half, place[0], place[1], properties)
        message.sys_flag = half.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT
        message.prepared_transaction_offset = half.physical_offset
        message.delays = True
        return message

    def _op(self, halves: list[Half], now: int) -> BrokerMessage:
        """The op record that names these half messages: they are decided.

        4.9 reads a record as one number, and takes one that it cannot read for the decision of nothing.
        """
        if not self._store.shape.halves_per_op_record:
            body = b"%d" % halves[0].queue_offset
        else:
            body = b"".join(b"%d," % half.queue_offset for half in halves)
        born, host = int(self._store.times.wall(now)), self._writer.store_host
        return BrokerMessage(OP_HALF_TOPIC, OP_HALF_TOPIC.encode(), 0, body, self._op_properties, born, host)

    def _decide(self, halves: list[Half], now: int) -> None:
        """Write op records that name these half messages, of which nothing else is to be stored."""
        at_once = OPS_AT_ONCE if self._store.shape.halves_per_op_record else 1
        for first in range(0, len(halves), at_once):
            part = halves[first : first + at_once]
            end = self._writer.put_together([self._op(part, now)], now)[0].end_offset
            for half in part:
                self.halves.decide(half, end)

    def _taken_back(self, written: int) -> None:
        self._resumed = {at: end for at, end in self._resumed.items() if end <= written}
        self._questions = deque(half for half in self._questions if half.end_offset <= written)

    # -- an operator takes a given up message up again

    def on_resume(
        self, channel: Channel, command: Command, header: ResumeCheckHalfMessageRequestHeader, now: int
    ) -> Outcome:
        at = decode_offset_message_id(header.msg_id or "")[2]
        cold = self._store.cold_record(at)
        if cold is not None:
            return Cold([cold], lambda later: self.on_resume(channel, command, header, later))
        record = self._store.record_at(at)
        if record is None or not self._is_given_up(record):
            remark = f"no half message was given up at {header.msg_id}: name one of {TRANS_CHECK_MAX_TIME_TOPIC}"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
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
        """True for what a broker, ours or Java's, stored when it gave a half message up: nobody else writes there."""
        if record.topic != TRANS_CHECK_MAX_TIME_TOPIC:
            return False
        return self._store.holds(record.topic, record.queue_id, record.queue_offset, record.physical_offset)

    # -- we ask

    def due(self, now: int) -> int | None:
        """A slave asks nobody: its master does."""
        if self._loading or not self._writer.role.may_check:
            return None
        if self._questions and self._may_ask(self._questions[0]):
            return now
        return min(self._next_look, self._next_check)

    def tick(self, now: int, budget: int) -> None:
        """Read what is new; every `transactionCheckInterval` look at what is undecided."""
        if self._loading:
            return
        complete = self.halves.scan(budget)
        if now >= self._next_check and complete:
            self._next_check = now + self._options.transaction_check_interval
            self._sweep = list(reversed(self.halves.pending))
            self._said = False
        if complete:
            self._pay(now)
        self._ask_some()
        if self._sweep:
            self._check_some(now, min(budget, CHECKS_AT_ONCE))
        pause = ASK_PAUSE_MS if self._questions else LOOK_INTERVAL_MS
        self._next_look = now + pause if complete and not self._sweep else now
        self.halves.progress(now)

    def _pay(self, now: int) -> None:
        """Write the op records that a power cut took away."""
        try:
            if owed := self.halves.owed():
                self._decide(owed, now)
        except BolideError as error:
            self._say(f"op records cannot be written now: {error}")

    def _check_some(self, now: int, budget: int) -> None:
        """Check part of this round. A half message that fails does not affect the others."""
        finished: list[Half] = []
        sweep = self._sweep
        room = BYTES_AT_ONCE
        try:
            while sweep and budget > 0 and room > 0:
                half = self.halves.pending.get(sweep[-1])
                if half is not None and self._is_loading(half):
                    break
                sweep.pop()
                if half is None or half.queue_offset == self._unreadable:
                    continue
                budget -= 1
                room -= half.size
                if self._looked_at(half, now):
                    finished.append(half)
            self._decide(finished, now)
        except BolideError as error:
            # The store takes nothing now: the next round looks again at everything that is undecided.
            self._say(f"the round of checks ends early: {error}")
            sweep.clear()

    def _is_loading(self, half: Half) -> bool:
        """True when the record must be loaded first; the round continues after that."""
        if self._loaded_for == half.queue_offset:
            return False
        try:
            cold = self._store.cold_record(half.physical_offset, half.size)
        except FileFailed as error:
            self._unreadable = half.queue_offset
            self._say(f"the half message at offset {half.physical_offset} of the log cannot be checked: {error}")
            return False
        self._unreadable = -1
        if cold is None:
            return False
        self._loading = True
        self._loaded_for = half.queue_offset
        self._effects.load([cold], self._loaded)
        return True

    def _loaded(self, now: int) -> None:
        self._loading = False
        self._effects.wake(self)

    def _looked_at(self, half: Half, now: int) -> bool:
        """Check one half message; True when only its op record is left to write.

        Raises only what also stops the others: the store takes nothing now.
        """
        try:
            record = self._store.record_at(half.physical_offset, half.size)
            return record is None or self._check(half, record, now)
        except BolideError as error:
            if response_code(error) == codes.SERVICE_NOT_AVAILABLE:
                raise
            self._say(f"the half message at offset {half.physical_offset} of the log cannot be checked: {error}")
            return False

    def _say(self, text: str) -> None:
        """Log once a round: what goes wrong with one half message may go wrong with thousands."""
        if self._log is not None and not self._said:
            self._log.warning("%s", text)
            self._said = True

    def _check(self, half: Half, record: Record, now: int) -> bool:
        """Ask about one half message, or give it up; True when it is done but has no op record yet."""
        properties = stored_properties(record.properties)
        place = real_place(properties)
        if place is None:
            self._say(f"{misplaced(properties)}: it is given up to {TRANS_CHECK_MAX_TIME_TOPIC}")
            self._give_up(half, record, now)
            return False
        asked = check_times(record)
        wall = int(self._store.times.wall(now))
        age = wall - record.born_timestamp
        stored = wall - record.store_timestamp  # files go by this, and a message may be born long before it is sent
        if asked >= self._options.transaction_check_max or stored > self._options.file_reserved_time * 3_600_000:
            self._give_up(half, record, now)
            return False
        custom = properties.get(IMMUNITY)
        limit = self._options.transaction_time_out
        if custom is not None:
            if age <= immunity_ms(custom, limit):
                return self._prepared_is_decided(properties)
        elif 0 <= age <= limit:
            return False
        # Stored again with its counter, as Java does: the old record is done, the producer is asked about the new one.
        properties.set(names.TRANSACTION_CHECK_TIMES, str(asked + 1))
        try:
            messages = [renewal(record, HALF_TOPIC, properties), self._op([half], now)]
            renewed, op = self._writer.put_together(messages, now)
        except BolideError as error:
            if response_code(error) != codes.MESSAGE_ILLEGAL:
                raise
            # No room for the counter, or larger than the limit is now: it could never be asked about.
            self._say(f"the half message at offset {half.physical_offset} of the log is given up: {error}")
            self._give_up(half, record, now)
            return False
        new = Half(renewed.queue_offset, renewed.physical_offset, renewed.size)
        self.halves.renew(half, new, op.end_offset)
        self._questions.append(new)
        return False

    def _prepared_is_decided(self, properties: MessageProperties) -> bool:
        """Java stores an immune half message again in each round, and its op record names the first one."""
        first = java_int(properties.get(names.TRAN_PREPARED_QUEUE_OFFSET) or "", 63)
        return first is not None and self.halves.was_named(first)

    def _give_up(self, half: Half, record: Record, now: int) -> None:
        self._topics.find_or_create(TRANS_CHECK_MAX_TIME_TOPIC, 1, PERM_READ_WRITE, 0, False, now)
        given_up = renewal(record, TRANS_CHECK_MAX_TIME_TOPIC, stored_properties(record.properties))
        _, op = self._writer.put_together([given_up, self._op([half], now)], now)
        self.halves.decide(half, op.end_offset)

    def _may_ask(self, half: Half) -> bool:
        """True when this record can no longer be taken back. Otherwise another half message could get its place, and
        the answer would end that one."""
        return half.end_offset <= min(self._store.dispatched_offset, self._store.flushed_offset)

    def _ask_some(self) -> None:
        room = BYTES_AT_ONCE
        while self._questions and room > 0 and self._may_ask(self._questions[0]):
            half = self._questions.popleft()
            if self.halves.is_decided(half.queue_offset):
                continue
            room -= half.size
            try:
                record = self._store.record_at(half.physical_offset, half.size)
                if record is not None:
                    self._ask(record)
            except BolideError as error:
                self._say(f"nobody can be asked about the half message at {half.physical_offset} of the log: {error}")

    def _ask(self, record: Record) -> None:
        properties = stored_properties(record.properties)
        place = real_place(properties)
        producer = self._producer(properties.get(names.PGROUP) or "")
        if producer is None or place is None:
            return
        unique = properties.get(names.UNIQ_KEY)
        header = CheckTransactionStateRequestHeader(
            tran_state_table_offset=record.queue_offset,
            commit_log_offset=record.physical_offset,
            topic=HALF_TOPIC,
            msg_id=unique,
            transaction_id=unique,
            offset_msg_id=self._writer.message_id(record.physical_offset),
        )
        message = copy_of(record, place[0], place[1], properties)
        message.store_host = record.store_host
        message.encoded_properties = record.properties
        w = BytesWriter()
        encode_record(
            w,
            message,
            queue_offset=record.queue_offset,
            physical_offset=record.physical_offset,
            store_timestamp=record.store_timestamp,
        )
        question = make_request(codes.CHECK_TRANSACTION_STATE, 0, header.to_ext(), w.getvalue(), oneway=True)
        self._effects.send(producer.channel, question)

    def _producer(self, group: str) -> Client | None:
        """The producer to ask: as in Java one that reads, of three tried in turn."""
        for _ in range(PRODUCERS_TRIED):
            producer = self._clients.next_producer(group)
            if producer is None or producer.channel.queued <= self._options.client_write_buffer_high:
                return producer
        return None
