"""The broker's topics: the table of config/topics.json and creation on the fly.

Rules from RocketMQ's TopicConfigManager (docs/protocol/behaviour.md 2.1); file shape in docs/protocol/store.md 10.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, final

import msgspec

from bolide.broker.core.data_version import DataVersion
from bolide.broker.core.effects import Effects
from bolide.broker.core.options import BrokerOptions
from bolide.broker.core.rows import Rows, Text
from bolide.broker.core.service import Table
from bolide.broker.refused import Refused
from bolide.broker.tables.system_topics import system_topics
from bolide.broker.tables.topic_config import MAX_QUEUES, SINGLE_TAG, TopicConfig
from bolide.layout.names import AUTO_CREATE_TOPIC, LMQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from bolide.layout.permissions import PERM_INHERIT, PERM_READ_WRITE
from bolide.remoting.bodies.topics import GUESSED_TOPICS
from bolide.remoting.codes import SYSTEM_ERROR
from bolide.remoting.json import parse_long


@final
class TopicTable(Table):
    """All topics of this broker, by name. Every change is persisted and registered with the name servers."""

    def __init__(self, options: BrokerOptions, effects: Effects, now: int) -> None:
        super().__init__("topics")
        self.table: dict[str, TopicConfig] = {}
        self.data_version: DataVersion = DataVersion(now, 0, 0)
        self._effects: Effects = effects
        self._auto_create: bool = options.tables.auto_create_topic_enable
        self._most: int = options.tables.max_topics
        self._lmq: bool = options.shape.enable_lmq
        self._rows: Rows = Rows(self._row)
        self._version_text: bytes = b""
        """The version that `begin` saw, so that it never claims more than the file holds."""
        self._unsaved: dict[str, TopicConfig] = {}
        self._saving: dict[str, TopicConfig] = {}
        self.untold: set[str] = set()
        """Topics that are known by their messages only, and that no master has told since this start."""
        self.guessed: set[str] = set()
        """Topics that were made of their messages, here or at a former master: a message may show more queues."""
        self._guessing: set[str] = set()
        self.denied: dict[str, int] = {}
        """Topics that the master of this slave deleted and does not have. Their messages up to this offset of the log
        were delivered late, and make no topic."""
        self.system: set[str] = set(SYSTEM_TOPICS)
        for config in system_topics(options):
            self.table[config.topic_name] = config
            self._rows.touch(config.topic_name)
            self.system.add(config.topic_name)

    def configure(self, options: BrokerOptions) -> None:
        """Take over what may change while the broker runs."""
        self._auto_create = options.tables.auto_create_topic_enable
        self._most = options.tables.max_topics

    def get(self, topic: str) -> TopicConfig | None:
        """The topic's settings, or None when there is none. Light queues (LMQ) are topics without being told."""
        found = self.table.get(topic)
        return self._light(topic) if found is None and self._lmq else found

    def _light(self, topic: str) -> TopicConfig | None:
        """The topic of a light queue: it has one queue and is in no table and no file (LmqTopicConfigManager)."""
        return TopicConfig(topic, 1, 1) if topic.startswith(LMQ_PREFIX) else None

    def put(self, config: TopicConfig, now: int) -> None:
        """Create or replace a topic; file and name servers follow. Raises `Refused` 1 for one topic too many."""
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
        """Forget a topic; False when there was none. Its files are the store's to delete."""
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
        """Have a topic of which messages are here, with so many queues; False when nothing changes, or for one topic
        too many. A number of queues that somebody set stays."""
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
        made.order = known is not None and known.order  # name servers may have said so
        self._add(made, now)
        return True

    def untold_saved(self) -> bool:
        """True once the file has all topics that are known by their messages only."""
        return all(self.table[topic].saved for topic in self.untold if topic in self.table)

    def follow(self, configs: Iterable[TopicConfig], guessed: Container[str] = ()) -> int:
        """Have these as the master of this broker has them; returns how many found no room. `followed` comes after.
        `guessed`: those whose number of queues is a guess there."""
        left_out = 0
        for config in configs:
            name = config.topic_name
            self.untold.discard(name)
            self.denied.pop(name, None)
            if name in guessed:
                self.guessed.add(name)
            else:
                self.guessed.discard(name)
            known = self.table.get(name)
            if known is not None and known.to_json() == config.to_json():
                continue
            if known is None and len(self.table) >= self._most:
                left_out += 1
                continue
            self._unsaved[name] = config
            config.mark_saved(False)
            self.table[name] = config
            self._rows.touch(name)
        return left_out

    def followed(self, names: Container[str], version: Mapping[str, Any], known: Container[str]) -> list[str]:
        """All of the master's topics are here: forget the others that were `known`, which are returned, and have its
        version.

        The broker's own topics stay, whatever an older master lacks.
        """
        gone = [name for name in self.table if name in known and name not in names and name not in self.system]
        for name in gone:
            del self.table[name]
            self._rows.touch(name)
        self.untold = {name for name in self.untold if name in self.table}
        self.guessed = {name for name in self.guessed if name in self.table}
        self.data_version.assign(version)
        self._effects.persist(self.persist_name)
        self._effects.register([])
        return gone

    def forget(self, topic: str, log_end: int) -> None:
        """Forget a topic that the master of this broker deleted; the version stays the master's. What the log has of
        it up to `log_end` makes no topic; -1 when there is nothing."""
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
        """Find the topic, or make it after the template `default_topic`; None when that is not allowed (code 17)."""
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
        """Find the topic or create it just so: retry, dead letter and internal topics.

        These are few to a group, so the limit on groups bounds them.
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
        """Hold the current answer back until the file has what the table has now."""
        self._effects.persist(self.persist_name)

    def repeated(self) -> None:
        """A request asked for what the table says already: its answer waits until the file says so, too."""
        self._effects.persist_unsaved(self.persist_name)

    def set_order(self, topic: str, order: bool, now: int) -> None:
        """A group's retry topic is ordered while the group subscribes to an ordered topic."""
        found = self.table.get(topic)
        if found is not None and found.order != order:
            found.order = order
            self._changed([topic], now)

    def is_system(self, topic: str) -> bool:
        """True for topics that are the broker's own: requests neither create nor change nor delete them."""
        return topic in self.system or topic.startswith(SYSTEM_TOPIC_PREFIX)

    def announce(self, now: int) -> None:
        """Tell the name servers all topics as if each had changed: what they are told of them has."""
        self._changed([], now, ())

    def is_order_topic(self, topic: str) -> bool:
        """True when the topic is known and marked as ordered."""
        found = self.table.get(topic)
        return found is not None and found.order

    def mark_ordered(self, names: Iterable[str], now: int) -> None:
        """Name servers keep these topics as ordered (namespace ORDER_TOPIC_CONFIG): so are they here, for good."""
        changed = []
        for name in names:
            found = self.table.get(name)
            if found is not None and not found.order:
                found.order = True
                changed.append(name)
        if changed:
            self._changed([], now, changed)

    def of_epoch(self, epoch: int, now: int) -> None:
        """A master of this epoch was elected: to name servers this table is newer than one of an older epoch."""
        self.data_version.state_version = epoch
        self.data_version.next(now)
        self._effects.persist(self.persist_name)

    def encode(self) -> bytes:
        """The file config/topics.json: a line for each topic."""
        self._rows.follow(self.table)
        self._rows.finish()
        self._version_text = msgspec.json.encode(self.data_version.to_json())
        self._guessing = set(self.guessed)
        return self.text().join()

    def begin(self) -> None:
        """A write of the file begins; it will hold the table as it is now."""
        self._rows.begin()
        self._version_text = msgspec.json.encode(self.data_version.to_json())
        self._guessing = set(self.guessed)
        self._saving.update(self._unsaved)
        self._unsaved = {}

    def step(self, most: int) -> bool:
        """Encode so many topics at most; True when the text may be taken."""
        return self._rows.step(most)

    def text(self) -> Text:
        """The file's text, to be joined in a thread."""
        text = Text()
        text.member("dataVersion", self._version_text)
        # What changed since `begin` may be in the rows or not, so both sets are told.
        guessed = self._queues_of(sorted(self._guessing | self.guessed))
        if guessed:
            text.member(GUESSED_TOPICS, msgspec.json.encode(guessed))
        text.rows("topicConfigTable", self._rows.encoded())
        return text

    def written(self) -> None:
        """The file holds what the table did at the last `begin`."""
        saving, self._saving = self._saving, {}
        for config in saving.values():
            config.mark_saved(True)

    def queues_guessed(self, names: Iterable[str]) -> dict[str, int]:
        """Those of these topics that were made of their messages, each with its number of queues."""
        return self._queues_of(name for name in names if name in self.guessed)

    def _queues_of(self, names: Iterable[str]) -> dict[str, int]:
        return {name: self.table[name].read_queue_nums for name in names if name in self.table}

    def rows_of(self, names: Iterable[str]) -> list[bytes]:
        """These topics, encoded."""
        return self._rows.some(names)

    def _row(self, name: str) -> bytes:
        config = self.table.get(name)
        return b"" if config is None else msgspec.json.encode(config.to_json())

    def load(self, data: bytes) -> None:
        """Take over a stored topics.json; system topics of this start stay where the file has none."""
        stored: Any = parse_long(data)
        topics = (stored.get("topicConfigTable") or {}).items()
        found = {str(name): TopicConfig.from_json(str(name), each, True) for name, each in topics if each is not None}
        guessed = stored.get(GUESSED_TOPICS)
        self.data_version.assign(stored.get("dataVersion") or {})  # the last that can fail: then nothing is taken
        self.table.update(found)
        self.guessed = {name for name in found if name in guessed} if isinstance(guessed, dict) else set()
        for name in found:
            self._rows.touch(name)

    def _changed(self, names: list[str], now: int, rows: Iterable[str] | None = None) -> None:
        """These topics go to the name servers ([] = all), and to the file where `rows` does not say which."""
        for name in names if rows is None else rows:
            self._rows.touch(name)
        self.data_version.next(now)
        self._effects.persist(self.persist_name)
        self._effects.register(names)
