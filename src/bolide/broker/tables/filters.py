"""Consumer filter data: the expressions of subscriptions, compiled once and stored with their versions.

RocketMQ's ConsumerFilterManager (docs/protocol/behaviour.md 1, docs/protocol/store.md 10). Registered by heartbeats.
The response to a pull is 27 if there is no data, and 28 if it is older than the pull's subscription. Data is kept for
24 h after its consumers have left, and across restarts (config/consumerFilter.json), because the filter bitmaps of
stored records refer to it: while a group is away, new records still get its bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bolide.broker.core.effects import Effects
from bolide.broker.core.service import Table
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.broker.tables.pull_filter import ExpressionRefused, FilterCache, PullFilter, is_tag
from bolide.dispatch.row import Dispatch
from bolide.layout.bloom import BloomFilter, empty_bitmap, member_text, set_bits
from bolide.layout.properties import property_value
from bolide.layout.property_names import RETRY_TOPIC
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.bodies.clients import SubscriptionData
from bolide.remoting.codes import SYSTEM_ERROR
from bolide.remoting.json import parse_long
from bolide.store.queues.unit_filter import UnitFilter

PERSIST_INTERVAL_MS: Final = 10_000
DEAD_BEFORE_START_MS: Final = 30_000
"""Time before the start at which consumers are assumed to have left, if the file does not contain it."""


def size_of(topic: str, group: str, text: str) -> int:
    """Return the size of a group's filter: its characters plus 256."""
    return len(topic) + len(group) + len(text) + 256


class FilterData:
    """The expression of one group for one topic. Times are ms since the epoch. `dead_time` is 0 while it is in use."""

    def __init__(
        self,
        topic: str,
        group: str,
        expression: str,
        expression_type: str,
        client_version: int,
        born_time: int,
        compiled: PullFilter,
        units: UnitFilter,
    ) -> None:
        self.topic = topic
        self.group = group
        self.expression = expression
        self.expression_type = expression_type
        self.client_version = client_version
        self.born_time = born_time
        self.dead_time = 0
        self.positions = units.positions
        self.filter = PullFilter(compiled.tag_codes, compiled.predicate, True, units)
        self.filter.expression_type = expression_type

    @property
    def is_dead(self) -> bool:
        return self.dead_time >= self.born_time


class ConsumerFilters(Table):
    """All filter data of one broker, by topic and group."""

    def __init__(
        self,
        options: BrokerOptions,
        filters: FilterCache,
        effects: Effects,
        start: int,
        store_time: Callable[[int], int] | None = None,
    ) -> None:
        """`store_time(now)` returns the store time of a record stored now, in the clock of `born_time`; None: `now`.
        It is not called before a consumer registers."""
        super().__init__("consumerFilter")
        self.filters = filters
        self._effects = effects
        self.store_time = store_time if store_time is not None else as_it_is
        self._start = start
        self._bloom = BloomFilter.of(
            options.shape.max_error_rate_of_bloom_filter, options.shape.expect_consumer_num_use_filter
        )
        self._keep_ms = options.filters.filter_data_clean_time_span
        self._by_topic: dict[str, dict[str, FilterData]] = {}
        self._by_group: dict[str, dict[str, FilterData]] = {}
        self._size = 0
        self._most = options.filters.max_consumer_filter_size
        self._dirty = False
        self._next = 0

    def get(self, topic: str, group: str) -> FilterData | None:
        """Return the filter of a group for a topic, or None if it has registered none that compiles."""
        groups = self._by_topic.get(topic)
        return None if groups is None else groups.get(group)

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._most = options.filters.max_consumer_filter_size

    # -- heartbeats

    def register(self, group: str, subscriptions: list[SubscriptionData], now: int) -> None:
        """Apply the subscriptions of a heartbeat. Filters of topics that it does not name become inactive."""
        for subscription in subscriptions:
            if not is_tag(subscription.expression_type) and subscription.sub_string:
                self._register(group, subscription, str(subscription.expression_type), now)
        known = self._by_group.get(group)
        if known:
            named = {subscription.topic for subscription in subscriptions}
            self._bury([data for topic, data in known.items() if topic not in named], now)

    def unregister(self, group: str, now: int) -> None:
        """Called when the last consumer of a group has disconnected."""
        known = self._by_group.get(group)
        if known:
            self._bury(list(known.values()), now)

    def _register(self, group: str, subscription: SubscriptionData, expression_type: str, now: int) -> None:
        version = subscription.sub_version
        old = self.get(subscription.topic, group)
        if old is not None:
            if version <= old.client_version:
                if version == old.client_version and old.is_dead:
                    self._revive(old)
                return
            if (old.expression, old.expression_type) == (subscription.sub_string, expression_type):
                old.client_version = version
                self._revive(old)
                return
            self._remove(old)
        try:
            compiled = self.filters.of(expression_type, subscription.sub_string)
        except ExpressionRefused:
            return  # the client's pulls get response 27
        more = size_of(subscription.topic, group, subscription.sub_string)
        if self._size + more > self._most:
            self._forget_dead(now, 0)
        if self._size + more > self._most:
            text = f"the filter of group[{group}] cannot be kept: maxConsumerFilterSize is {self._most}"
            raise Refused(SYSTEM_ERROR, f"{text} for all groups; filter less or raise it")
        born = self.store_time(now)
        self._add(subscription.topic, group, subscription.sub_string, expression_type, version, born, compiled)

    def _add(
        self, topic: str, group: str, text: str, expression_type: str, version: int, born: int, compiled: PullFilter
    ) -> FilterData:
        positions = self._bloom.positions(member_text(group, topic))
        units = UnitFilter(positions, self._bloom.bits, born)
        data = FilterData(topic, group, text, expression_type, version, born, compiled, units)
        self._size += size_of(topic, group, text)
        self._by_topic.setdefault(topic, {})[group] = data
        self._by_group.setdefault(group, {})[topic] = data
        self._changed()
        return data

    def _remove(self, data: FilterData) -> None:
        self._size -= size_of(data.topic, data.group, data.expression)
        for table, first, second in (
            (self._by_topic, data.topic, data.group),
            (self._by_group, data.group, data.topic),
        ):
            del table[first][second]
            if not table[first]:
                del table[first]
        self._changed()

    def _bury(self, gone: list[FilterData], now: int) -> None:
        for data in gone:
            if not data.is_dead:
                data.dead_time = max(now, data.born_time)
                self._changed()

    def _revive(self, data: FilterData) -> None:
        data.dead_time = 0
        self._changed()

    # -- records

    def calc_bitmap(self, d: Dispatch) -> bytes:
        """Return the filter bitmap of a record: the bits of every group whose expression it passes, or b"" without
        groups."""
        groups = self._by_topic.get(d.topic)
        if not groups:
            return b""
        bitmap = empty_bitmap(self._bloom.bits)
        for data in groups.values():
            predicate = data.filter.predicate
            if predicate is None or predicate(d.properties):
                set_bits(bitmap, data.positions)
        return bytes(bitmap)

    def retry_filter(self, group: str, chosen: PullFilter) -> PullFilter:
        """Return a filter for a retry topic: each record is checked by the group's expression for its original
        topic."""

        def passes(properties: bytes) -> bool:
            data = self.get(property_value(properties, RETRY_TOPIC) or "", group)
            if data is None or data.filter.predicate is None:
                return True
            return data.filter.predicate(properties)

        by_origin = PullFilter(chosen.tag_codes, passes, True)
        by_origin.cost = chosen.cost
        return by_origin

    # -- the file

    def encode(self) -> bytes:
        """Return the file's text in Java's format."""
        return encode_body(
            {
                "filterDataByTopic": {
                    topic: {
                        "groupFilterData": {group: self.entry(data) for group, data in sorted(groups.items())},
                        "topic": topic,
                    }
                    for topic, groups in sorted(self._by_topic.items())
                }
            }
        )

    def entry(self, data: FilterData) -> dict[str, Any]:
        """Return one group's data for one topic in Java's format."""
        return {
            "bloomFilterData": {"bitNum": self._bloom.bits, "bitPos": data.positions},
            "bornTime": data.born_time,
            "clientVersion": data.client_version,
            "consumerGroup": data.group,
            "dead": data.is_dead,
            "deadTime": data.dead_time,
            "expression": data.expression,
            "expressionType": data.expression_type,
            "topic": data.topic,
        }

    def load(self, data: bytes) -> None:
        """Load a file written by Java or Bolide. Data of a different Bloom filter is ignored completely, as in Java.

        All filters are inactive until they are registered again.
        """
        stored: Any = parse_long(data)
        entries = [
            entry
            for topic in (stored.get("filterDataByTopic") or {}).values()
            for entry in ((topic or {}).get("groupFilterData") or {}).values()
            if entry
        ]
        if not all(self._is_ours(entry.get("bloomFilterData")) for entry in entries):
            entries = []
        texts = [(str(entry.get("expression")), str(entry.get("expressionType"))) for entry in entries]
        names = [(str(entry["topic"]), str(entry["consumerGroup"])) for entry in entries]
        numbers = [[int(entry.get(key, 0)) for key in ("clientVersion", "bornTime", "deadTime")] for entry in entries]
        # An unreadable file changes nothing, so that only its previous copy is used.
        self._by_topic, self._by_group = {}, {}
        self._size = 0
        for (text, kind), (topic, group), (version, born, dead) in zip(texts, names, numbers, strict=True):
            try:
                compiled = self.filters.of(kind, text)
            except ExpressionRefused:
                continue
            made = self._add(topic, group, text, kind, version, born, compiled)
            made.dead_time = dead or max(self._start - DEAD_BEFORE_START_MS, born)

    def _is_ours(self, bloom: Any) -> bool:
        return (
            isinstance(bloom, dict)
            and bloom.get("bitNum") == self._bloom.bits
            and len(bloom.get("bitPos") or []) == self._bloom.hashes
        )

    def due(self, now: int) -> int | None:
        return self._next if self._by_topic or self._dirty else None

    def tick(self, now: int, budget: int) -> None:
        """Every 10 s: remove filters that have been inactive for a day, and write the file if it has changed."""
        self._next = now + PERSIST_INTERVAL_MS
        self._forget_dead(now, self._keep_ms)
        if self._dirty:
            self._dirty = False
            self._effects.persist(self.persist_name)

    def _forget_dead(self, now: int, after: int) -> None:
        dead = [data for groups in self._by_topic.values() for data in groups.values() if data.is_dead]
        for data in dead:
            if now - data.dead_time >= after:
                self._remove(data)

    def _changed(self) -> None:
        if not self._dirty:
            self._dirty = True
            self._effects.wake(self)


def as_it_is(now: int) -> int:
    """Return `now`."""
    return now
