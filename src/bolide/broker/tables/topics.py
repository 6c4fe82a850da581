"""The broker's topics: the table of config/topics.json, and implicit creation.

Rules from RocketMQ's TopicConfigManager (docs/protocol/behaviour.md 2.1); file shape in docs/protocol/store.md 10.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, final

import msgspec

from bolide.broker.core.effects import Effects
from bolide.broker.core.rows import Text
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.broker.tables.row_table import ConfigTable
from bolide.broker.tables.system_topics import system_topics
from bolide.broker.tables.topic_config import SINGLE_TAG, TopicConfig
from bolide.layout.limits import MAX_QUEUES
from bolide.layout.names import AUTO_CREATE_TOPIC, LMQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from bolide.layout.permissions import PERM_INHERIT, PERM_READ_WRITE
from bolide.remoting.bodies.topics import GUESSED_TOPICS
from bolide.remoting.codes import SYSTEM_ERROR
from bolide.remoting.json import parse_long


@final
class TopicTable(ConfigTable[TopicConfig]):
    """All topics of this broker, by name. Every change is persisted and registered with the name servers."""

    def __init__(self, options: BrokerOptions, effects: Effects, now: int) -> None:
        super().__init__("topics", effects, now, options.tables.max_topics)
        self._auto_create: bool = options.tables.auto_create_topic_enable
        self._lmq: bool = options.shape.enable_lmq
        self._unsaved: dict[str, TopicConfig] = {}
        self._saving: dict[str, TopicConfig] = {}
        self.untold: set[str] = set()
        """Unreplicated topics: known only by their messages, and not received from a master since this start."""
        self.guessed: set[str] = set()
        """Topics whose queues were inferred from messages, here or on a former master. A later message may show more
        queues."""
        self._guessing: set[str] = set()
        self.denied: dict[str, int] = {}
        """Topics that the master of this slave deleted. Their messages up to this offset of the log were delivered
        late, and create no topic."""
        self.system: set[str] = set(SYSTEM_TOPICS)
        for config in system_topics(options):
            self.table[config.topic_name] = config
            self._rows.touch(config.topic_name)
            self.system.add(config.topic_name)

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._auto_create = options.tables.auto_create_topic_enable
        self._most = options.tables.max_topics

    def get(self, topic: str) -> TopicConfig | None:
        """Return the topic's settings, or None. Light queues (LMQ) are topics without an entry."""
        found = self.table.get(topic)
        return self._light(topic) if found is None and self._lmq else found

    def _light(self, topic: str) -> TopicConfig | None:
        """Return the topic of a light queue, which has one queue and no entry in the table or file
        (LmqTopicConfigManager)."""
        return TopicConfig(topic, 1, 1) if topic.startswith(LMQ_PREFIX) else None

    def put(self, config: TopicConfig, now: int) -> None:
        """Create or replace a topic, persist and register it. Raises `Refused` 1 if the limit is reached."""
        if self._lmq and config.topic_name.startswith(LMQ_PREFIX):
            return
        if config.topic_name not in self.table:
            self._check_room(config.topic_name)
        self.guessed.discard(config.topic_name)
        self.untold.discard(config.topic_name)
        self._add(config, now)

    def _check_room(self, topic: str) -> None:
        if len(self.table) >= self._most:
            text = f"topic[{topic}] cannot be created: maxTopics is {self._most}; delete topics or raise it"
            raise Refused(SYSTEM_ERROR, text)

    def _add(self, config: TopicConfig, now: int) -> None:
        known = self.table.get(config.topic_name)
        if known is None or not known.saved or not known.has_queues_of(config):
            config.mark_saved(False)
            self._unsaved[config.topic_name] = config
        self.table[config.topic_name] = config
        self._changed([config.topic_name], now)

    def delete(self, topic: str, now: int) -> bool:
        """Remove a topic. Return False if there was none. The caller deletes its files from the store."""
        if self.table.pop(topic, None) is None:
            self._effects.persist_unsaved(self.persist_name)  # the file may still have it
            return False
        self.guessed.discard(topic)
        self._rows.touch(topic)
        self.data_version.next(now)
        self._effects.persist(self.persist_name)
        self._effects.register([])
        return True

    def learn(self, topic: str, queues: int, now: int) -> bool:
        """Add a topic inferred from its messages, with this number of queues. Return False if nothing changes or the
        limit is reached. A configured number of queues is kept."""
        known = self.table.get(topic)
        if known is None:
            if len(self.table) >= self._most:
                return False
        elif topic not in self.guessed or known.read_queue_nums >= queues:
            return False
        self.untold.add(topic)
        self.guessed.add(topic)
        self.denied.pop(topic, None)
        made = TopicConfig(topic, queues, queues, PERM_READ_WRITE)
        made.order = known is not None and known.order  # name servers may have marked it
        self._add(made, now)
        return True

    def untold_saved(self) -> bool:
        """Return whether the file contains all unreplicated topics."""
        return all(self.table[topic].saved for topic in self.untold if topic in self.table)

    def follow(self, configs: Iterable[TopicConfig], guessed: Container[str] = ()) -> int:
        """Apply these topics of the master. Return how many exceeded the limit. Call `followed` afterwards. `guessed`:
        topics whose number of queues is inferred on the master."""
        return self.take(self._told(configs, guessed))

    def _told(self, configs: Iterable[TopicConfig], guessed: Container[str]) -> Iterator[TopicConfig]:
        for config in configs:
            self.untold.discard(config.name)
            self.denied.pop(config.name, None)
            if config.name in guessed:
                self.guessed.add(config.name)
            else:
                self.guessed.discard(config.name)
            yield config

    def taken(self, config: TopicConfig) -> None:
        """Called with each topic of the master that was new or different here."""
        self._unsaved[config.name] = config
        config.mark_saved(False)

    def followed(self, names: Container[str], version: Mapping[str, Any], known: Container[str]) -> list[str]:
        """Remove and return topics in `known` that the master lacks, and adopt its version.

        The broker's system topics are kept even if an older master lacks them.
        """
        gone = [name for name in self.table if name in known and name not in names and name not in self.system]
        kept = self.table.keys() - gone
        self.untold &= kept
        self.guessed &= kept
        self.take_version(gone, version)
        self._effects.register([])
        return gone

    def forget(self, topic: str, log_end: int) -> None:
        """Remove a topic that the master of this broker deleted; the version remains the master's. Messages in the log
        up to `log_end` create no topic; -1 if there are none."""
        if self.table.pop(topic, None) is not None:
            if log_end >= 0:
                self.denied[topic] = log_end
            self.untold.discard(topic)
            self.guessed.discard(topic)
            self._rows.touch(topic)
            self._effects.persist(self.persist_name)
            self._effects.register([])

    def create_on_send(
        self, topic: str, default_topic: str, default_topic_queue_nums: int, topic_sys_flag: int, now: int
    ) -> TopicConfig | None:
        """Return the topic, or create it from the template `default_topic`, or return None if that is not allowed (code
        17)."""
        found = self.get(topic)
        if found is not None:
            if not found.saved:
                self.wait_for_file()
            return found
        template = self.table.get(default_topic)
        if default_topic == AUTO_CREATE_TOPIC and not self._auto_create:
            template = None
        if template is None or template.perm & PERM_INHERIT == 0:
            if topic.startswith(RETRY_PREFIX):
                self._check_room(topic)
                return self.find_or_create(topic, 1, PERM_READ_WRITE, topic_sys_flag, False, now)
            return None
        queues = max(min(default_topic_queue_nums, template.write_queue_nums), 0)
        perm = template.perm & ~PERM_INHERIT
        created = TopicConfig(topic, queues, queues, perm, template.topic_filter_type, topic_sys_flag, False, None)
        self.put(created, now)
        return created

    def find_or_create(
        self, topic: str, queue_nums: int, perm: int, topic_sys_flag: int, order: bool, now: int
    ) -> TopicConfig:
        """Return a retry, dead letter or internal topic, or create it with these settings.

        There are few per group, so the limit of groups also limits them.
        """
        found = self.get(topic)
        if found is None:
            queues = max(min(queue_nums, MAX_QUEUES), 0)
            found = TopicConfig(topic, queues, queues, perm, SINGLE_TAG, topic_sys_flag, order, None)
            self._add(found, now)
        elif not found.saved:
            self.wait_for_file()
        return found

    def wait_for_file(self) -> None:
        """Delay the current response until the file contains the current table."""
        self._effects.persist(self.persist_name)

    def set_order(self, topic: str, order: bool, now: int) -> None:
        """Mark a group's retry topic as ordered while the group subscribes to an ordered topic."""
        found = self.table.get(topic)
        if found is not None and found.order != order:
            found.order = order
            self._changed([topic], now)

    def is_system(self, topic: str) -> bool:
        """Return whether this is a system topic, which requests can neither create nor change nor delete."""
        return topic in self.system or topic.startswith(SYSTEM_TOPIC_PREFIX)

    def announce(self, now: int) -> None:
        """Register all topics with the name servers under a new DataVersion, because their registration has changed."""
        self._changed([], now, ())

    def is_order_topic(self, topic: str) -> bool:
        """Return whether the topic exists and is ordered."""
        found = self.table.get(topic)
        return found is not None and found.order

    def mark_ordered(self, names: Iterable[str], now: int) -> None:
        """Mark topics as ordered, permanently. `names` are from the name servers' ORDER_TOPIC_CONFIG."""
        changed = []
        for name in names:
            found = self.table.get(name)
            if found is not None and not found.order:
                found.order = True
                changed.append(name)
        if changed:
            self._changed([], now, changed)

    def of_epoch(self, epoch: int, now: int) -> None:
        """Set the epoch of a new master. For name servers this table is then newer than tables of older epochs."""
        self.data_version.state_version = epoch
        self.data_version.next(now)
        self._effects.persist(self.persist_name)

    def begin(self) -> None:
        """Start a write of the file. It contains the table as of now."""
        super().begin()
        self._saving.update(self._unsaved)
        self._unsaved = {}

    def note_state(self) -> None:
        super().note_state()
        self._guessing = set(self.guessed)

    def add_members(self, text: Text) -> None:
        # Rows changed since `begin` may be included or not, so write both sets.
        guessed = self._queues_of(sorted(self._guessing | self.guessed))
        if guessed:
            text.member(GUESSED_TOPICS, msgspec.json.encode(guessed))
        text.rows("topicConfigTable", self._rows.encoded())

    def written(self) -> None:
        """Called when the file contains the table as of the last `begin`."""
        saving, self._saving = self._saving, {}
        for config in saving.values():
            config.mark_saved(True)

    def queues_guessed(self, names: Iterable[str]) -> dict[str, int]:
        """Return the number of queues of each of these topics whose number was inferred."""
        return self._queues_of(name for name in names if name in self.guessed)

    def _queues_of(self, names: Iterable[str]) -> dict[str, int]:
        return {name: self.table[name].read_queue_nums for name in names if name in self.table}

    def load(self, data: bytes) -> None:
        """Load a stored topics.json. System topics of this start are kept if the file lacks them."""
        stored: Any = parse_long(data)
        topics = (stored.get("topicConfigTable") or {}).items()
        found = {str(name): TopicConfig.from_json(str(name), each, True) for name, each in topics if each is not None}
        guessed = stored.get(GUESSED_TOPICS)
        # The last step that can fail; nothing is changed before it.
        self.data_version.assign(stored.get("dataVersion") or {})
        self.table.update(found)
        self.guessed = {name for name in found if name in guessed} if isinstance(guessed, dict) else set()
        for name in found:
            self._rows.touch(name)

    def _changed(self, names: list[str], now: int, rows: Iterable[str] | None = None) -> None:
        """Register these topics with the name servers ([] = all), and persist them or `rows`."""
        for name in names if rows is None else rows:
            self._rows.touch(name)
        self.data_version.next(now)
        self._effects.persist(self.persist_name)
        self._effects.register(names)
