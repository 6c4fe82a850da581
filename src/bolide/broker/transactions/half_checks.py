"""Checks pending half messages: queries their producers, and abandons expired messages.

RocketMQ's TransactionalMessageCheckService and the check of TransactionalMessageServiceImpl. Every
`transactionCheckInterval` a round checks all pending half messages (docs/protocol/behaviour.md 4). A half message
expires after `transactionCheckMax` checks, or `fileReservedTime` hours after it was stored.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from bolide.broker.core.effects import Effects
from bolide.broker.core.service import Service
from bolide.broker.cursor.cold_loads import ColdLoads
from bolide.broker.found import topics_of
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import response_code
from bolide.broker.tables.clients import Client, Clients
from bolide.broker.tables.topics import TopicTable
from bolide.broker.transactions.check_request import check_request
from bolide.broker.transactions.half_records import check_times, immunity_ms, misplaced, real_place, renewal
from bolide.broker.transactions.op_records import OpRecords
from bolide.broker.transactions.renewals import Half
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.message_properties import MessageProperties, stored_properties
from bolide.layout.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from bolide.layout.permissions import PERM_READ_WRITE
from bolide.layout.record import Record
from bolide.remoting import codes
from bolide.remoting.headers.decode import java_int
from bolide.store.disk.files import FileFailed

CHECKS_AT_ONCE: Final = 100
"""Number of half messages checked in one tick. Each may be stored again and cause a request."""
BYTES_AT_ONCE: Final = 2 * 1024 * 1024
"""Number of bytes read after which a tick ends, so that a round over large messages does not fill the memory."""
LOOK_INTERVAL_MS: Final = 1_000
ASK_PAUSE_MS: Final = 10
"""Pause between two checks whether half messages are on disk, so that their producers can be asked."""
PRODUCERS_TRIED: Final = 3


class HalfChecks:
    """The rounds of checks of one broker."""

    def __init__(
        self,
        options: BrokerOptions,
        ops: OpRecords,
        clients: Clients,
        topics: TopicTable,
        effects: Effects,
        service: Service,
        start: int,
        log: logging.Logger | None,
    ) -> None:
        """`service`: the service whose `due` and `tick` run the checks. `log` reports half messages that cannot be
        processed."""
        self._options = options
        self._writer = ops.writer
        self._store = store = ops.writer.store
        self._halves = ops.halves
        self._ops = ops
        self._clients = clients
        self._topics = topics
        self._effects = effects
        self._loads = ColdLoads(store, effects, lambda now: effects.wake(service))
        self._next_check = start + options.transactions.transaction_check_interval
        self._next_look = start + LOOK_INTERVAL_MS
        self._sweep: list[int] = []
        """Half offsets that this round of checks has not processed yet, oldest last."""
        self._questions: deque[Half] = deque()
        """Half messages stored again. Their producers are asked once they are on disk."""
        self._log = log
        self._said = False
        """Whether this round of checks has logged a problem."""
        store.on_taken_back.append(self._taken_back)

    def begin(self, now: int) -> None:
        """Called before the first request: read decided transactions, and write missing op records. They are then at
        the end of the log: after another record, a second power failure could destroy them unnoticed. If this fails,
        the first tick retries."""
        if not self._writer.role.may_check:
            return
        try:
            self._halves.catch_up()
        except FileFailed as error:
            self._say(f"transactions cannot be read yet: {error}")
            return
        self._pay(now)

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._options = options

    def role_changed(self, now: int) -> None:
        """Drop the round and its pending requests, which now belong to another master."""
        self._sweep = []
        self._questions.clear()
        self._next_check = now + self._options.transactions.transaction_check_interval

    def due(self, now: int) -> int | None:
        """Return the time (ms) of the next check, or None on a slave: its master asks the producers."""
        if self._loads.active or not self._writer.role.may_check:
            return None
        if self._questions and self._may_ask(self._questions[0]):
            return now
        return min(self._next_look, self._next_check)

    def tick(self, now: int, budget: int) -> None:
        """Read new records; every `transactionCheckInterval` check pending half messages."""
        if self._loads.active:
            return
        complete = self._halves.scan(budget)
        if now >= self._next_check and complete:
            self._next_check = now + self._options.transactions.transaction_check_interval
            self._sweep = list(reversed(self._halves.pending))
            self._said = False
        if complete:
            self._pay(now)
        self._ask_some()
        if self._sweep:
            self._check_some(now, min(budget, CHECKS_AT_ONCE))
        pause = ASK_PAUSE_MS if self._questions else LOOK_INTERVAL_MS
        self._next_look = now + pause if complete and not self._sweep else now
        self._halves.progress(now)

    def _pay(self, now: int) -> None:
        """Rewrite op records that a power failure destroyed."""
        try:
            if owed := self._halves.owed():
                self._ops.write(owed, now)
        except BolideError as error:
            self._say(f"op records cannot be written now: {error}")

    def _check_some(self, now: int, budget: int) -> None:
        """Check part of this round. A half message that fails does not affect the others."""
        finished: list[Half] = []
        sweep = self._sweep
        room = BYTES_AT_ONCE
        try:
            while sweep and budget > 0 and room > 0:
                half = self._halves.pending.get(sweep[-1])
                try:
                    if half is not None and self._loads.lacks(half.physical_offset, half.size):
                        break
                except FileFailed as error:
                    self._say(f"the half message at offset {sweep[-1]} of its queue cannot be checked: {error}")
                    half = None
                sweep.pop()
                if half is None:
                    continue
                budget -= 1
                room -= half.size
                if self._looked_at(half, now):
                    finished.append(half)
            self._ops.write(finished, now)
        except BolideError as error:
            # The store rejects records now. The next round checks all pending half messages again.
            self._say(f"the round of checks ends early: {error}")
            sweep.clear()

    def _looked_at(self, half: Half, now: int) -> bool:
        """Check one half message. Return whether only its op record is left to write.

        Raises only if the store rejects all records now.
        """
        try:
            record = self._store.intact_record(half.physical_offset, half.size)
            return record is None or self._check(half, record, now)
        except BolideError as error:
            if response_code(error) == codes.SERVICE_NOT_AVAILABLE:
                raise
            self._say(f"the half message at offset {half.physical_offset} of the log cannot be checked: {error}")
            return False

    def _say(self, text: str) -> None:
        """Log once per round, because a problem of one half message may affect thousands."""
        if self._log is not None and not self._said:
            self._log.warning("%s", text)
            self._said = True

    def _check(self, half: Half, record: Record, now: int) -> bool:
        """Query the producer of one half message, or abandon the message. Return True if it is done but has no op
        record yet."""
        properties = stored_properties(record.properties)
        place = real_place(properties)
        if place is None:
            self._say(f"{misplaced(properties)}: it is moved to {TRANS_CHECK_MAX_TIME_TOPIC}")
            self._give_up(half, record, now)
            return False
        asked = check_times(record)
        wall = int(self._store.times.wall(now))
        age = wall - record.born_timestamp
        # Log files expire by the store time, and a message may be born long before it is sent.
        stored = wall - record.store_timestamp
        options = self._options
        if asked >= options.transactions.transaction_check_max or stored > options.store.file_reserved_time * 3_600_000:
            self._give_up(half, record, now)
            return False
        custom = properties.get(names.CHECK_IMMUNITY_TIME_IN_SECONDS)
        limit = options.transactions.transaction_time_out
        if custom is not None:
            if age <= immunity_ms(custom, limit):
                return self._prepared_is_decided(properties)
        elif 0 <= age <= limit:
            return False
        # Stored again with its counter, as in Java: the old record is done, and the producer is asked about the new
        # one.
        properties.set(names.TRANSACTION_CHECK_TIMES, str(asked + 1))
        try:
            messages = [renewal(record, HALF_TOPIC, properties), self._ops.record([half], now)]
            renewed, op = self._writer.put_together(messages, now)
        except BolideError as error:
            if response_code(error) != codes.MESSAGE_ILLEGAL:
                raise
            # There is no room for the counter, or the record exceeds the current limit: it could never be checked.
            self._say(f"the half message at offset {half.physical_offset} of the log is abandoned: {error}")
            self._give_up(half, record, now)
            return False
        new = Half(renewed.queue_offset, renewed.physical_offset, renewed.size)
        self._halves.renew(half, new, op.end_offset)
        self._questions.append(new)
        return False

    def _prepared_is_decided(self, properties: MessageProperties) -> bool:
        """Return whether the op record of the first copy exists. Java stores an immune half message again in each
        round, and its op record names the first copy."""
        first = java_int(properties.get(names.TRAN_PREPARED_QUEUE_OFFSET) or "", 63)
        return first is not None and self._halves.was_named(first)

    def _give_up(self, half: Half, record: Record, now: int) -> None:
        self._topics.find_or_create(TRANS_CHECK_MAX_TIME_TOPIC, 1, PERM_READ_WRITE, 0, False, now)
        given_up = renewal(record, TRANS_CHECK_MAX_TIME_TOPIC, stored_properties(record.properties))
        _, op = self._writer.put_together([given_up, self._ops.record([half], now)], now)
        self._halves.decide(half, op.end_offset)

    def _may_ask(self, half: Half) -> bool:
        """Return whether the half message is dispatched and durable. Until then a rollback may reuse its offset, and
        the producer's reply would decide another message."""
        return half.end_offset <= min(self._store.dispatched_offset, self._store.flushed_offset)

    def _ask_some(self) -> None:
        room = BYTES_AT_ONCE
        while self._questions and room > 0 and self._may_ask(self._questions[0]):
            half = self._questions.popleft()
            if self._halves.is_decided(half.queue_offset):
                continue
            room -= half.size
            try:
                record = self._store.intact_record(half.physical_offset, half.size)
                if record is not None:
                    self._ask(record)
            except BolideError as error:
                self._say(f"nobody can be asked about the half message at {half.physical_offset} of the log: {error}")

    def _ask(self, record: Record) -> None:
        properties = stored_properties(record.properties)
        place = real_place(properties)
        producer = self._producer(properties.get(names.PGROUP) or "", topics_of(record))
        if producer is None or place is None:
            return
        question = check_request(record, place, properties, self._writer.message_id(record.physical_offset))
        self._effects.send(producer.channel, question)

    def _producer(self, group: str, topics: list[str]) -> Client | None:
        """Return the producer to ask, or None. As in Java, try at most three in turn and skip a client that reads too
        slowly. The producer must have permission to send to one of these topics, because the request contains the
        message and any user may join a producer group."""
        for _ in range(PRODUCERS_TRIED):
            producer = self._clients.next_producer(group, topics)
            if producer is None or producer.channel.queued <= self._options.connections.client_write_buffer_high:
                return producer
        return None

    def _taken_back(self, written: int) -> None:
        self._questions = deque(half for half in self._questions if half.end_offset <= written)
