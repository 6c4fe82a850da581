"""The one door to the log: every record the broker stores comes through here, whoever asks for it.

Order: rewrite a delayed message to the schedule or timer topic, check names, sizes and state, append. Send, retries,
delays, transactions and replies all use it. Rules from RocketMQ's HookUtils, MessageStore and CommitLog.asyncPutMessage
(docs/protocol/behaviour.md 2 and 2.3, docs/protocol/store.md 2 and 9).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from bolide.broker.append.light_queues import entering
from bolide.broker.append.timer_rules import TimerRules
from bolide.broker.core.names import topic_refusal
from bolide.broker.core.stats import Tally, count
from bolide.broker.refused import Refused, illegal
from bolide.broker.tables.topics import MAX_QUEUES
from bolide.layout.hashes import tags_code
from bolide.layout.limits import MAX_PROPERTIES_LENGTH, MAX_TOPIC_LENGTH
from bolide.layout.message_id import HOST_V4_SIZE
from bolide.layout.names import RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from bolide.layout.properties import format_properties, parse_properties
from bolide.layout.property_names import TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS, TRANSIENT_PREFIX
from bolide.layout.record import Record
from bolide.layout.sysflag import (
    BORN_HOST_V6,
    STORE_HOST_V6,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
)
from bolide.remoting.codes import SERVICE_NOT_AVAILABLE, SYSTEM_ERROR
from bolide.store.message_store import Appended, MessageStore
from bolide.store.put import Put

MAX_NAMES: Final = 100_000
_SCHEDULE_BYTES: Final = SCHEDULE_TOPIC.encode()
_TIMER_BYTES: Final = TIMER_TOPIC.encode()

_UNIQ_KEY: Final = 1
_KEYS: Final = 2
_TAGS: Final = 3
_DELAY: Final = 4
_WAIT: Final = 5
_TRAN_MSG: Final = 6
_TIMER: Final = 7
_OURS: Final = 8
_MULTI: Final = 9
_MULTI_OFFSETS: Final = 10
_TIMER_OUT: Final = 11
_INNER: Final = 12
_SEEN: Final[dict[str, int]] = {
    "UNIQ_KEY": _UNIQ_KEY,
    "KEYS": _KEYS,
    "TAGS": _TAGS,
    "DELAY": _DELAY,
    "WAIT": _WAIT,
    "TRAN_MSG": _TRAN_MSG,
    "TIMER_DELAY_SEC": _TIMER,
    "TIMER_DELAY_MS": _TIMER,
    "TIMER_DELIVER_MS": _TIMER,
    "TIMER_OUT_MS": _TIMER_OUT,
    "MSG_REGION": _OURS,
    "TRACE_ON": _OURS,
    "CLUSTER": _OURS,
    "POP_CK": _OURS,
    "INNER_NUM": _INNER,
    "INNER_MULTI_DISPATCH": _MULTI,
    "INNER_MULTI_QUEUE_OFFSET": _MULTI_OFFSETS,
    "_SYS_MSG_PRIORITY_": _OURS,
}


@final
class PropertyScan:
    """What the broker needs to know of a properties string, found in one pass without building a dictionary."""

    def __init__(self) -> None:
        self.uniq_key: str = ""
        self.keys: str = ""
        self.tags: str = ""
        self.delay_level: int = 0
        self.wait: bool = True
        self.transactional: bool = False
        self.timer: bool = False
        """True when it names a time of delivery."""
        self.timer_out: bool = False
        """True when a timer has taken it up already."""
        self.waits_until: int = 0
        """The slot (ms) in which the door made it wait, 0 for none."""
        self.inner_batch: bool = False
        """True when it says that its body holds several messages."""
        self.multi: str = ""
        """The light queues (LMQ) it shall enter, as listed."""
        self.multi_offsets: bool = False
        """True when it says what its offsets in them are."""
        self.rewrite: bool = False
        """True when the string holds names the broker sets or drops itself, or pairs no reader would take."""


def scan_properties(text: str, acted: bool = False) -> PropertyScan:
    """Read a properties string as Java's string2messageProperties would; of two pairs with one name the last wins.

    Its delay properties need not be valid when the delay has already `acted`.
    """
    found = PropertyScan()
    if not text:
        return found
    for item in text.split("\x02"):
        at = item.find("\x01")
        if at <= 0 or at == len(item) - 1:
            if item:
                found.rewrite = True
            continue
        name = item[:at]
        kind = _SEEN.get(name, 0)
        if kind == 0:
            if name.startswith(TRANSIENT_PREFIX):
                found.rewrite = True
        elif kind == _UNIQ_KEY:
            found.uniq_key = item[at + 1 :]
        elif kind == _KEYS:
            found.keys = item[at + 1 :]
        elif kind == _TAGS:
            found.tags = item[at + 1 :]
        elif kind == _WAIT:
            # MessageConst WAIT: Boolean.parseBoolean, so anything but "true" is false
            found.wait = item[at + 1 :].lower() == "true"
        elif kind != _DELAY or not acted:
            _scan_rare(found, kind, item[at + 1 :])
    return found


def _scan_rare(found: PropertyScan, kind: int, value: str) -> None:
    if kind == _DELAY:
        found.delay_level = level_number(value)
    elif kind == _TRAN_MSG:
        found.transactional = value.lower() == "true"
    elif kind == _TIMER:
        found.timer = True
    elif kind == _TIMER_OUT:
        found.timer_out = True
    elif kind == _MULTI:
        found.multi = value
    elif kind == _MULTI_OFFSETS:
        found.multi_offsets = True
    elif kind == _INNER:
        found.inner_batch = True
    else:
        found.rewrite = True


def level_number(text: str) -> int:
    """A delay level from its text. Raises `Refused` 1 for what is no number."""
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
        max_message_size: int,
        delay_levels: int,
        timers: TimerRules,
        puts: dict[str, Tally] | None = None,
    ) -> None:
        self.store: MessageStore = store
        self.store_host: bytes = store_host
        self._host_hex: str = store_host.hex().upper()
        self.max_message_size: int = max_message_size
        self.delay_levels: int = delay_levels
        self.timers: TimerRules = timers
        self.multi_dispatch: bool = store.shape.multi_dispatch
        self._tags_codes: dict[str, int] = {}
        self.puts: dict[str, Tally] = puts if puts is not None else {}
        """What was stored, by topic."""
        self._good_names: dict[str, bool] = {}

    def put_text(
        self,
        topic: str,
        topic_bytes: bytes,
        queue_id: int,
        body: bytes,
        properties: str,
        found: PropertyScan,
        flag: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        reconsume_times: int,
        prepared_transaction_offset: int,
        now: int,
    ) -> Appended:
        """Store one message. `properties` is the text to keep, `found` what `scan_properties` said of it.

        Raises `Refused` 13 (too long, or a delay out of shape), 14 (store not writable) or 1 (no timer now); the
        store's own errors pass.
        """
        put = self.prepare(
            topic,
            topic_bytes,
            queue_id,
            body,
            properties,
            found,
            flag,
            sys_flag,
            born_timestamp,
            born_host,
            reconsume_times,
            prepared_transaction_offset,
            now,
        )
        return self._put(put, now)

    def _put(self, put: Put, now: int) -> Appended:
        appended = self.store.append(put, now)
        count(self.puts, put.topic, 1, appended.size)
        return appended

    def put_together(self, puts: list[Put], now: int) -> list[Appended]:
        """Store prepared messages that belong together: all of them or none. Raises as the store's `append_batch`."""
        appended = self.store.append_batch(puts, now)
        for put, stored in zip(puts, appended, strict=True):
            count(self.puts, put.topic, 1, stored.size)
        return appended

    def prepare(
        self,
        topic: str,
        topic_bytes: bytes,
        queue_id: int,
        body: bytes,
        properties: str,
        found: PropertyScan,
        flag: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        reconsume_times: int,
        prepared_transaction_offset: int,
        now: int,
    ) -> Put:
        """The message as it is stored, after every check of the door. Raises as `put_text`."""
        sys_flag = self.host_flags(sys_flag, born_host)
        level = found.delay_level
        if level > 0 or found.timer:
            self._check_place(topic, queue_id)  # later it could not be delivered
            kind = sys_flag & TRANSACTION_MASK
            if kind != TRANSACTION_NONE and kind != TRANSACTION_COMMIT:
                level = 0
            elif level > 0:
                if level > self.delay_levels:
                    level = self.delay_levels
                properties = delayed_properties(properties, topic, queue_id, level)
                topic = SCHEDULE_TOPIC
                topic_bytes = _SCHEDULE_BYTES
                queue_id = level - 1
            elif not found.timer_out and topic != TIMER_TOPIC:
                waiting = self.timers.rewritten(properties, topic, queue_id, int(self.store.times.wall(now)))
                if waiting is not None:
                    properties, found.waits_until = waiting
                    topic = TIMER_TOPIC
                    topic_bytes = _TIMER_BYTES
                    queue_id = 0
        light: list[str] | None = None
        if self.multi_dispatch and (found.multi or found.multi_offsets):
            properties, light = entering(topic, found.multi, properties)
        raw = properties.encode()
        self.check(topic, queue_id, body, raw)
        return Put(
            topic,
            topic_bytes,
            queue_id,
            body,
            raw,
            born_timestamp,
            born_host,
            self.store_host,
            flag,
            sys_flag,
            reconsume_times,
            prepared_transaction_offset,
            found.uniq_key,
            found.keys,
            found.tags,
            self.tags_code(found.tags),
            found.wait,
            level if level > 0 else 0,
            light,
        )

    def put_properties(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: Mapping[str, str],
        flag: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        reconsume_times: int,
        prepared_transaction_offset: int,
        now: int,
    ) -> Appended:
        """Store a message of the broker's own, its properties given as a mapping."""
        text = format_properties(properties)
        return self.put_text(
            topic,
            topic.encode(),
            queue_id,
            body,
            text,
            scan_properties(text),
            flag,
            sys_flag,
            born_timestamp,
            born_host,
            reconsume_times,
            prepared_transaction_offset,
            now,
        )

    def put_again(
        self,
        record: Record,
        topic: str,
        queue_id: int,
        properties: str,
        now: int,
        delays: bool = False,
        sys_flag: int = -1,
        reconsume_times: int = -1,
        prepared_transaction_offset: int = 0,
    ) -> Appended:
        """Store a record once more under this topic and with these properties; body, flag and birth stay.

        With `delays` what the properties say of a delay acts; else it has acted, or acts later. -1 keeps the record's
        own value. Nobody's answer waits for the copy because of a property. Raises as `put_text`.
        """
        put = self.prepare_again(
            record, topic, queue_id, properties, now, delays, sys_flag, reconsume_times, prepared_transaction_offset
        )
        return self._put(put, now)

    def prepare_again(
        self,
        record: Record,
        topic: str,
        queue_id: int,
        properties: str,
        now: int,
        delays: bool = False,
        sys_flag: int = -1,
        reconsume_times: int = -1,
        prepared_transaction_offset: int = 0,
    ) -> Put:
        """What `put_again` stores, for `put_together`. Raises as `put_text`."""
        found = scan_properties(properties, not delays)
        found.wait = False
        if not delays:
            found.timer = False
        return self.prepare(
            topic,
            topic.encode(),
            queue_id,
            record.body,
            properties,
            found,
            record.flag,
            record.sys_flag if sys_flag < 0 else sys_flag,
            record.born_timestamp,
            record.born_host,
            record.reconsume_times if reconsume_times < 0 else reconsume_times,
            prepared_transaction_offset,
            now,
        )

    def message_id(self, physical_offset: int) -> str:
        """The offset message id of a record stored here (layout.message_id.offset_message_id, host encoded once)."""
        return f"{self._host_hex}{physical_offset:016X}"

    def host_flags(self, sys_flag: int, born_host: bytes) -> int:
        """The sys flag with the two bits that say how long the hosts are.

        A record is read by these bits, so they follow what is stored and never what a client says.
        """
        sys_flag &= ~(BORN_HOST_V6 | STORE_HOST_V6)
        if len(born_host) > HOST_V4_SIZE:
            sys_flag |= BORN_HOST_V6
        if len(self.store_host) > HOST_V4_SIZE:
            sys_flag |= STORE_HOST_V6
        return sys_flag

    def takes(self, topic: str, queue_id: int) -> bool:
        """True for a topic and a queue that a message can be stored under, whether or not they exist."""
        return self._name_refusal(topic) is None and 0 <= queue_id < MAX_QUEUES

    def _name_refusal(self, topic: str) -> str | None:
        """Why this is no valid topic name; None when it is. Cached: the same names come by the million."""
        if topic in self._good_names:
            return None
        why = topic_refusal(topic)
        if len(topic) > MAX_TOPIC_LENGTH and not topic.startswith(RETRY_PREFIX):
            why = f"the topic has {len(topic)} bytes, more than {MAX_TOPIC_LENGTH}"
        if why is None:
            if len(self._good_names) >= MAX_NAMES:
                self._good_names.clear()
            self._good_names[topic] = True
        return why

    def check(self, topic: str, queue_id: int, body: bytes, properties: bytes) -> None:
        """Refuse what must not be stored: queue files are named after it. Raises `Refused` 13 or 14."""
        if not self.store.writable():
            raise Refused(
                SERVICE_NOT_AVAILABLE, "service not available now: the store is full, failed or shutting down"
            )
        if len(body) > self.max_message_size:
            raise illegal(
                f"the body has {len(body)} bytes, more than maxMessageSize {self.max_message_size}: send less"
            )
        if len(properties) > MAX_PROPERTIES_LENGTH:
            raise illegal(
                f"the properties have {len(properties)} bytes, more than {MAX_PROPERTIES_LENGTH}: shorten them"
            )
        self._check_place(topic, queue_id)

    def _check_place(self, topic: str, queue_id: int) -> None:
        if topic not in self._good_names:
            why = self._name_refusal(topic)
            if why is not None:
                raise illegal(why)
        if queue_id < 0 or queue_id >= MAX_QUEUES:
            raise illegal(f"the queue {queue_id} of the topic {topic} cannot be: queues go from 0 to {MAX_QUEUES - 1}")

    def tags_code(self, tags: str) -> int:
        """Hash of the tags, remembered: a topic has few of them."""
        if not tags:
            return 0
        code = self._tags_codes.get(tags)
        if code is None:
            if len(self._tags_codes) > 10_000:
                self._tags_codes.clear()
            code = tags_code(tags)
            self._tags_codes[tags] = code
        return code


def delayed_properties(text: str, topic: str, queue_id: int, level: int) -> str:
    """The stored properties of a message on its way through the schedule topic."""
    properties = parse_properties(text)
    for name in (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS):
        properties.pop(name, None)  # a level beats them
    properties["DELAY"] = str(level)
    properties["REAL_TOPIC"] = topic
    properties["REAL_QID"] = str(queue_id)
    return format_properties(properties)
