"""The only way into the log: every record that the broker stores, for any writer, is appended here.

Order: rewrite a delayed message to the schedule or timer topic, check names and state, append; the store checks sizes.
Send, retries, delays, transactions and replies all use it. Rules from RocketMQ's HookUtils, MessageStore and
CommitLog.asyncPutMessage (docs/protocol/behaviour.md 2 and 2.3, docs/protocol/store.md 2 and 9).
"""

from __future__ import annotations

from typing import Final, final

from bolide.broker.append.light_queues import enter_light_queues
from bolide.broker.append.timer_rules import TimerRules
from bolide.broker.core.names import topic_refusal
from bolide.broker.core.role import Role
from bolide.broker.core.stats import Tally, count
from bolide.broker.refused import Refused, illegal
from bolide.layout.broker_message import BrokerMessage, topic_fits
from bolide.layout.hashes import tags_code
from bolide.layout.limits import MAX_QUEUES, MAX_TOPIC_LENGTH
from bolide.layout.message_properties import MessageProperties
from bolide.layout.names import SCHEDULE_TOPIC, TIMER_TOPIC
from bolide.layout.property_names import (
    DELAY,
    REAL_QID,
    REAL_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
)
from bolide.layout.sysflag import (
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
)
from bolide.remoting.codes import SERVICE_NOT_AVAILABLE, SYSTEM_ERROR
from bolide.store.errors import MessageIllegal
from bolide.store.log.appended import Appended
from bolide.store.message_store import MessageStore

MAX_NAMES: Final = 100_000
_SCHEDULE_BYTES: Final = SCHEDULE_TOPIC.encode()
_HOLE: Final = "\0" * 512
_TIMER_BYTES: Final = TIMER_TOPIC.encode()


def delay_level(properties: MessageProperties) -> int:
    """Return the delay level in the properties, or 0 without one. Raises `Refused` 1 if it is not a number."""
    text = properties.delay
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        raise Refused(SYSTEM_ERROR, f"the property DELAY must be a number, not {text[:20]!r}") from None


@final
class LogWriter:
    """Checks and stores messages. `store_host` is stored with every record: 4 or 16 address bytes and an int32 port."""

    def __init__(
        self,
        store: MessageStore,
        store_host: bytes,
        delay_levels: int,
        timers: TimerRules,
        puts: dict[str, Tally] | None = None,
        role: Role | None = None,
    ) -> None:
        self.store: MessageStore = store
        self.store_host: bytes = store_host
        self._host_hex: str = store_host.hex().upper()
        self.delay_levels: int = delay_levels
        self.timers: TimerRules = timers
        self.role: Role = role if role is not None else Role()
        self.multi_dispatch: bool = store.shape.multi_dispatch
        self._tags_codes: dict[str, int] = {}
        self.puts: dict[str, Tally] = puts if puts is not None else {}
        """Stored messages by topic."""
        self._good_names: dict[str, bool] = {}

    def put(self, message: BrokerMessage, now: int) -> Appended:
        """Store one message. Raises `Refused` 13 (too long, or an invalid queue or delay), 14 (the store rejects
        messages) or 1 (timers are off or full), and the store's errors."""
        self._prepare(message, now)
        try:
            appended = self.store.append(message, now)
        except MessageIllegal as error:
            raise illegal(str(error)) from error
        count(self.puts, message.topic, 1, appended.size)
        return appended

    def put_together(self, messages: list[BrokerMessage], now: int) -> list[Appended]:
        """Store all of these messages or none. Raises like `put`."""
        appended = self._append_all(messages, now)
        for message, stored in zip(messages, appended, strict=True):
            count(self.puts, message.topic, 1, stored.size)
        return appended

    def put_batch(self, messages: list[BrokerMessage], now: int) -> list[Appended]:
        """Store all of these messages of one topic or none. Requires at least one. Raises like `put`."""
        appended = self._append_all(messages, now)
        size = 0
        for stored in appended:
            size += stored.size
        count(self.puts, messages[0].topic, len(appended), size)
        return appended

    def _append_all(self, messages: list[BrokerMessage], now: int) -> list[Appended]:
        for message in messages:
            self._prepare(message, now)
        try:
            return self.store.append_batch(messages, now)
        except MessageIllegal as error:
            raise illegal(str(error)) from error

    def _prepare(self, message: BrokerMessage, now: int) -> None:
        """Check a message and set its derived fields."""
        properties = message.properties
        properties.scan()
        message.store_host = self.store_host
        message.mark_hosts()
        if message.delays and (properties.timer or properties.delay):
            self._delay(message, now)
        if self.multi_dispatch and (properties.multi or properties.multi_offsets):
            enter_light_queues(message)
        message.tags_code = self.tags_code(properties.tags)
        if not message.encoded_properties:
            message.encoded_properties = properties.text.encode()
        if not self.role.may_write:
            raise Refused(SERVICE_NOT_AVAILABLE, "this broker is a slave: its log is written by its master")
        if not self.store.writable():
            why = self.store.flags.describe() or "this broker stops"
            raise Refused(SERVICE_NOT_AVAILABLE, f"service not available now: {why}")
        self._check_place(message.topic, message.queue_id)

    def _delay(self, message: BrokerMessage, now: int) -> None:
        """Move a message with a delay to the schedule topic or the timer topic."""
        properties = message.properties
        level = delay_level(properties)
        if level <= 0 and not properties.timer:
            return
        self._check_place(message.topic, message.queue_id)  # otherwise its delivery would fail later
        kind = message.sys_flag & TRANSACTION_MASK
        if kind != TRANSACTION_NONE and kind != TRANSACTION_COMMIT:
            return
        if level > 0:
            if level > self.delay_levels:
                level = self.delay_levels
            for name in (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS):
                properties.drop(name)  # a level takes precedence over them
            properties.set(DELAY, str(level))
            _keep_place(message)
            message.delay_level = level
            message.move_to(SCHEDULE_TOPIC, _SCHEDULE_BYTES, level - 1)
        elif not properties.timer_out and message.topic != TIMER_TOPIC:
            slot = self.timers.slot(properties, int(self.store.times.wall(now)))
            if slot > 0:
                properties.set(TIMER_OUT_MS, str(slot))
                _keep_place(message)
                message.waits_until = slot
                message.move_to(TIMER_TOPIC, _TIMER_BYTES, 0)

    def message_id(self, physical_offset: int) -> str:
        """Return the message id of a record stored here (layout.message_id.offset_message_id, host encoded once)."""
        return f"{self._host_hex}{physical_offset:016X}"

    def takes(self, topic: str, queue_id: int) -> bool:
        """Return whether topic name and queue id are valid. Neither needs to exist."""
        return self._name_refusal(topic) is None and 0 <= queue_id < MAX_QUEUES

    def _name_refusal(self, topic: str) -> str | None:
        """Return why this is not a valid topic name, or None if it is valid. Cached, because names repeat."""
        if topic in self._good_names:
            return None
        why = topic_refusal(topic)
        if why is None and not topic_fits(topic, len(topic)):  # its characters are ASCII
            why = f"the topic has {len(topic)} bytes, more than {MAX_TOPIC_LENGTH}"
        if why is None:
            if len(self._good_names) >= MAX_NAMES:
                self._good_names.clear()
            self._good_names[topic] = True
        return why

    def _check_place(self, topic: str, queue_id: int) -> None:
        if topic not in self._good_names:
            why = self._name_refusal(topic)
            if why is not None:
                raise illegal(why)
        if queue_id < 0 or queue_id >= MAX_QUEUES:
            raise illegal(f"the queue {queue_id} of the topic {topic} cannot be: queues go from 0 to {MAX_QUEUES - 1}")

    def tags_code(self, tags: str) -> int:
        """Return the hash of the tags. Cached, because a topic has few tags."""
        if not tags:
            return 0
        code = self._tags_codes.get(tags)
        if code is None:
            if len(self._tags_codes) > 10_000:
                self._tags_codes.clear()
            code = tags_code(tags)
            self._tags_codes[tags] = code
        return code


def refuse_zeros(properties: str, at_the_end: bool) -> None:
    """Raise `Refused` 13 for zero bytes that recovery could mistake for sectors lost in a power failure. No CRC covers
    properties. `at_the_end`: the broker appends no bytes to them."""
    if "\0" in properties and (_HOLE in properties or (at_the_end and properties.endswith("\0"))):
        raise illegal(f"the properties end with a zero character, or hold {len(_HOLE)} of them in a row: remove them")


def _keep_place(message: BrokerMessage) -> None:
    """Store the real topic and queue in the properties, for delivery."""
    message.encoded_properties = b""
    message.properties.set(REAL_TOPIC, message.topic)
    message.properties.set(REAL_QID, str(message.queue_id))
