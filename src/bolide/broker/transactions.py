"""Transactions: END_TRANSACTION (37), asking producers that did not end theirs (39), giving up on the rest, and taking
one of those up again (RESUME_CHECK_HALF_MESSAGE, 323).

Behaviour facts 4 (EndTransactionProcessor, TransactionalMessageServiceImpl). One difference, in favour of the user: a
repeated END_TRANSACTION for a decided half message has no second effect, also after it was stored anew for a check;
Java would store the message twice. The final record and the op record that decides it are appended in one turn, so a
crash keeps both or neither in practice, and never the decision without the message, since the message comes first in
the log.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter

from bolide.broker.channel import Channel
from bolide.broker.clients import Clients
from bolide.broker.consumer_offsets import ConsumerOffsets
from bolide.broker.effects import Effects
from bolide.broker.half_messages import Half, HalfMessages
from bolide.broker.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from bolide.broker.options import BrokerOptions
from bolide.broker.outcome import NOTHING, Handler, Outcome, Parked, reply
from bolide.broker.put import PutDoor
from bolide.broker.topics import PERM_READ, PERM_WRITE, TopicTable
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.message_id import decode_offset_message_id
from bolide.layout.properties import format_properties, parse_properties_bytes
from bolide.layout.record import Record, encode_record
from bolide.layout.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from bolide.store.message_store import MessageStore
from bolide.store.put import Appended

COMMIT: Final = 8
ROLLBACK: Final = 12
OP_TAG: Final = "d"
OPS_AT_ONCE: Final = 200
"""Half offsets named by one op record: 200 numbers of up to 19 digits stay below 4096 characters."""
LOOK_INTERVAL_MS: Final = 1_000
IMMUNITY: Final = names.CHECK_IMMUNITY_TIME_IN_SECONDS


class TransactionService:
    """Ends transactions and asks about those that do not end."""

    def __init__(
        self,
        options: BrokerOptions,
        store: MessageStore,
        door: PutDoor,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        clients: Clients,
        effects: Effects,
        start: int,
    ) -> None:
        self._options = options
        self._store = store
        self._door = door
        self._topics = topics
        self._clients = clients
        self._effects = effects
        self._halves = HalfMessages(store, offsets)
        self._next_check = start + options.transaction_check_interval
        self._next_look = start + LOOK_INTERVAL_MS
        self._sweep: list[int] = []
        """Half offsets this round of checks has not looked at yet, the oldest last."""

    def handlers(self) -> dict[int, Handler]:
        return {codes.END_TRANSACTION: self.on_end, codes.RESUME_CHECK_HALF_MESSAGE: self.on_resume}

    # -- the producer says how it ended

    def on_end(self, channel: Channel, command: Command, now: int) -> Outcome:
        header = decode_header(command, EndTransactionRequestHeader)
        if self._options.is_slave:
            remark = "a transaction cannot be ended on a slave: send to its master"
            return reply(make_response(command, codes.SLAVE_NOT_AVAILABLE, remark))
        if header.commit_or_rollback not in (COMMIT, ROLLBACK):
            return NOTHING
        record = self._store.record_at(header.commit_log_offset)
        if record is None or record.topic != HALF_TOPIC:
            return reply(make_response(command, codes.SYSTEM_ERROR, "Find prepared transaction message failed"))
        properties = parse_properties_bytes(record.properties)
        refusal = self._refusal(header, record, properties, now)
        if refusal is not None:
            return reply(make_response(command, *refusal))
        half = self._undecided(record)
        if half is None:
            return reply(make_response(command, codes.SUCCESS, "the transaction was decided before"))
        end = 0
        if header.commit_or_rollback == COMMIT:
            end = self._commit(record, properties, now).end_offset
        end = max(end, self._decide([half], now))
        return Parked(reply(make_response(command, codes.SUCCESS)), end)

    def _undecided(self, record: Record) -> Half | None:
        """The half message that ends when this record of it does; None when it has ended."""
        halves = self._halves
        halves.catch_up()
        newest = halves.newest(record.queue_offset)
        if halves.is_decided(newest):
            return None
        return halves.pending.get(newest) or Half(newest, record.physical_offset, record.total_size)

    def _refusal(
        self, header: EndTransactionRequestHeader, record: Record, properties: dict[str, str], now: int
    ) -> tuple[int, str] | None:
        custom = properties.get(IMMUNITY)
        if custom and not header.from_transaction_check:
            if now - record.born_timestamp > immunity_ms(custom, self._options.transaction_time_out):
                return codes.ILLEGAL_OPERATION, "the immunity time of the transaction is over: answer its check instead"
        group = properties.get(names.PGROUP)
        if group is None or group != header.producer_group:
            return codes.SYSTEM_ERROR, "The producer group wrong"
        if record.queue_offset != header.tran_state_table_offset:
            return codes.SYSTEM_ERROR, "The transaction state table offset wrong"
        if record.physical_offset != header.commit_log_offset:
            return codes.SYSTEM_ERROR, "The commit log offset wrong"
        return None

    def _commit(self, half: Record, properties: dict[str, str], now: int) -> Appended:
        """Store the message under its own topic. 5.5 leaves REAL_TOPIC and REAL_QID out of the stored string."""
        kept = {name: value for name, value in properties.items() if name not in (names.REAL_TOPIC, names.REAL_QID)}
        return self._door.put_again(
            half,
            properties[names.REAL_TOPIC],
            int(properties.get(names.REAL_QID, "0")),
            format_properties(kept),
            now,
            delays=True,
            sys_flag=half.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT,
            prepared_transaction_offset=half.physical_offset,
        )

    def _decide(self, halves: list[Half], now: int) -> int:
        """Write op records that name these half messages; the physical end of the last one.

        4.9 reads a record as one number, and takes one that it cannot read for the decision of nothing.
        """
        old = self._options.store_version == "4.9"
        at_once = 1 if old else OPS_AT_ONCE
        end = 0
        for first in range(0, len(halves), at_once):
            part = halves[first : first + at_once]
            appended = self._door.put_properties(
                OP_HALF_TOPIC,
                0,
                b"%d" % part[0].queue_offset if old else b"".join(b"%d," % half.queue_offset for half in part),
                {names.TAGS: OP_TAG, names.WAIT: "true"},
                0,
                0,
                now,
                self._door.store_host,
                0,
                0,
                now,
            )
            end = appended.end_offset
            for half in part:
                self._halves.decide(half, end)
        return end

    # -- an operator takes a given up message up again

    def on_resume(self, channel: Channel, command: Command, now: int) -> Outcome:
        header = decode_header(command, ResumeCheckHalfMessageRequestHeader)
        if self._options.is_slave:
            remark = "a half message cannot be put back on a slave: ask its master"
            return reply(make_response(command, codes.SLAVE_NOT_AVAILABLE, remark))
        record = self._store.record_at(decode_offset_message_id(header.msg_id or "")[2])
        properties = {} if record is None else parse_properties_bytes(record.properties)
        if record is None or names.REAL_TOPIC not in properties or names.PGROUP not in properties:
            remark = f"no half message is stored at {header.msg_id}: it cannot be put back to {HALF_TOPIC}"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        properties[names.TRANSACTION_CHECK_TIMES] = "0"
        end = self._copy(record, HALF_TOPIC, properties, now).end_offset
        return Parked(reply(make_response(command, codes.SUCCESS)), end)

    # -- we ask

    def due(self, now: int) -> int | None:
        """A slave only answers; its master asks."""
        return None if self._options.is_slave else min(self._next_look, self._next_check)

    def tick(self, now: int, budget: int) -> None:
        """Read what is new; every `transactionCheckInterval` look at what is undecided."""
        complete = self._halves.scan(budget)
        if now >= self._next_check and complete:
            self._next_check = now + self._options.transaction_check_interval
            self._sweep = list(reversed(self._halves.pending))
        if self._sweep:
            self._check_some(now, budget)
        self._next_look = now + LOOK_INTERVAL_MS if complete and not self._sweep else now
        self._halves.progress(now)

    def _check_some(self, now: int, budget: int) -> None:
        finished: list[Half] = []
        sweep = self._sweep
        left = budget
        try:
            while sweep and left > 0:
                left -= 1
                half = self._halves.pending.get(sweep.pop())
                if half is None:
                    continue
                record = self._store.record_at(half.physical_offset, half.size)
                if record is None or self._check(half, record, now):
                    finished.append(half)
            self._decide(finished, now)
        except BolideError:
            # The store takes nothing now: the next round looks again at everything that is undecided.
            sweep.clear()

    def _check(self, half: Half, record: Record, now: int) -> bool:
        """Ask about one half message, or give it up; True when this record of it is done with."""
        properties = parse_properties_bytes(record.properties)
        times = properties.get(names.TRANSACTION_CHECK_TIMES, "0")
        asked = int(times) if times.isdecimal() else 0
        age = now - record.born_timestamp
        stored = now - record.store_timestamp  # files go by this, and a message may be born long before it is sent
        if asked >= self._options.transaction_check_max or stored > self._options.file_reserved_time * 3_600_000:
            self._give_up(record, properties, now)
            return True
        properties[names.TRANSACTION_CHECK_TIMES] = str(asked + 1)
        custom = properties.get(IMMUNITY)
        limit = self._options.transaction_time_out
        if custom is not None:
            if age <= immunity_ms(custom, limit):
                return self._prepared_is_decided(properties)
        elif 0 <= age <= limit:
            return False
        # Stored anew with its counter, as Java does: the old record is done with, the new one is asked about.
        renewed = self._copy(record, HALF_TOPIC, properties, now)
        self._halves.renew(half.queue_offset, renewed.queue_offset)
        self._ask(record, properties, renewed)
        return True

    def _prepared_is_decided(self, properties: dict[str, str]) -> bool:
        """Java stores an immune half message anew in each round, and its op record names the first one."""
        first = properties.get(names.TRAN_PREPARED_QUEUE_OFFSET, "")
        return first.isdecimal() and int(first) in self._halves.named

    def _give_up(self, record: Record, properties: dict[str, str], now: int) -> None:
        self._topics.find_or_create(TRANS_CHECK_MAX_TIME_TOPIC, 1, PERM_READ | PERM_WRITE, 0, False, now)
        self._copy(record, TRANS_CHECK_MAX_TIME_TOPIC, properties, now)

    def _copy(self, record: Record, topic: str, properties: dict[str, str], now: int) -> Appended:
        # A delay acts once the transaction commits, not on its half message.
        return self._door.put_again(record, topic, 0, format_properties(properties), now)

    def _ask(self, record: Record, properties: dict[str, str], renewed: Appended) -> None:
        producer = self._clients.next_producer(properties.get(names.PGROUP, ""))
        if producer is None:
            return
        unique = properties.get(names.UNIQ_KEY)
        header = CheckTransactionStateRequestHeader(
            tran_state_table_offset=renewed.queue_offset,
            commit_log_offset=renewed.physical_offset,
            topic=HALF_TOPIC,
            msg_id=unique,
            transaction_id=unique,
            offset_msg_id=self._door.message_id(renewed.physical_offset),
        )
        w = BytesWriter()
        encode_record(
            w,
            int(properties.get(names.REAL_QID, "0")),
            record.flag,
            renewed.queue_offset,
            renewed.physical_offset,
            record.sys_flag,
            record.born_timestamp,
            record.born_host,
            renewed.store_timestamp,
            self._door.store_host,
            record.reconsume_times,
            0,
            record.body,
            properties.get(names.REAL_TOPIC, "").encode(),
            format_properties(properties).encode(),
        )
        question = make_request(codes.CHECK_TRANSACTION_STATE, 0, header.to_ext(), w.getvalue(), oneway=True)
        self._effects.send(producer.channel, question)


def immunity_ms(custom: str, shortest: int) -> int:
    """How long a half message is left alone, from its property in seconds; what is no number counts as `shortest`."""
    try:
        return max(int(custom) * 1000, shortest)
    except ValueError:
        return shortest
