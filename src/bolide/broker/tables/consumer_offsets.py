"""Consumer offsets: progress of each group in each queue.

Stored by `topic@group`, persisted to config/consumerOffset.json every 5 s and at shutdown (RocketMQ's
ConsumerOffsetManager). A crash loses at most those 5 s: the group receives some messages again, and never misses one. A
pending reset (5.x server-side reset) is returned to the group's next pull and is kept in memory only.

With enableLmq the file is lmqConsumerOffset.json, and groups named %LMQ%… have one offset per topic, whatever the queue
(LmqConsumerOffsetManager), in a separate table of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from bolide.broker.core.effects import Effects
from bolide.broker.core.names import is_system_group
from bolide.broker.core.role import Role
from bolide.broker.core.rows import Text
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.broker.tables.backward_commits import BackwardCommits
from bolide.broker.tables.commits_ahead import CommitsAhead
from bolide.broker.tables.offsets_file import FROM_SLAVE, LIGHT_QUEUE, SEPARATOR, StoredOffsets, encoded, version_of
from bolide.broker.tables.pending_resets import PendingResets
from bolide.broker.tables.row_table import RowTable
from bolide.layout.names import FIRST_GROUPS, LMQ_PREFIX, TRANSACTION_GROUP
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.codes import SYSTEM_ERROR

PERSIST_INTERVAL_MS: Final = 5_000
VERSION_EVERY: Final = 500
"""Number of commits per increment of DataVersion, as in 5.x, so that a slave does not fetch the table continuously."""


class ConsumerOffsets(RowTable):
    """The table of committed offsets, and the pending resets."""

    def __init__(
        self,
        effects: Effects,
        lmq: bool = False,
        start: int = 0,
        most: int = 2_000_000,
        persist_interval_ms: int = PERSIST_INTERVAL_MS,
        backward: BackwardCommits | None = None,
        following: bool = False,
    ) -> None:
        """Commits of clients that move an offset back are counted by `backward`. `following`: this is a slave, whose
        offsets are its master's."""
        # If there is no LMQ file, load the file from before LMQ was enabled.
        super().__init__(
            "lmqConsumerOffset" if lmq else "consumerOffset", effects, start, "consumerOffset" if lmq else ""
        )
        self._persist_interval_ms = persist_interval_ms
        self._most = most
        self.count = 0
        """Number of offsets in both tables: committed and pulled."""
        self._owners: dict[str, int] = {}
        """Number of topics in which a group has committed or pulled."""
        self._lmq = lmq
        self._table: dict[str, dict[int, int]] = {}
        self._pulls: dict[str, dict[int, int]] = {}
        self._resets = PendingResets()
        self._rows = self.add_rows(lambda key: encoded(self._table.get(key)))
        self._light_rows = self.add_rows(self._light_row)
        self._pull_rows = self.add_rows(lambda key: encoded(self._pulls.get(key)))
        """Every pull marks one of these rows as stale."""
        self._commits = 0
        self.following = following
        self.from_slave = False
        """Whether a slave wrote the file that was loaded."""
        self._end_of: Callable[[str, int], int] | None = None
        """Returns the end of a queue, which limits commits of clients on a master. None: no limit."""
        self._since = CommitsAhead()
        self.backward = backward
        self._dirty = False
        self._next_persist = 0

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._most = options.consumers.max_consumer_offsets

    def commit(self, group: str, topic: str, queue_id: int, offset: int, now: int, client: str = "") -> bool:
        """Store an offset. A smaller offset is accepted, because a consumer may seek back. `client`: address of the
        committing client, "" for the broker itself.

        Return False if the limit is reached and the offset is not stored. The broker's own offsets are always stored.
        """
        key = topic + SEPARATOR + group
        queues = self._table.get(key)
        if self._light(group):
            queue_id = LIGHT_QUEUE
        if client and self._end_of is not None and not self.following:
            offset = min(offset, self._end_of(topic, queue_id))
        if queues is not None and queues.get(queue_id) == offset:
            return True
        if queues is None or queue_id not in queues:
            if self.count >= self._most and group not in FIRST_GROUPS:
                return False
            self.count += 1
            if queues is None:
                queues = self._table[key] = {}
                self._owns(group, 1)
        before = queues.get(queue_id, -1)
        if self.following:
            self._since.note(key, queue_id, before)
        if offset < before and client and self.backward is not None:
            self.backward.note(f"{topic}:{queue_id}", group, before=before, offset=offset, client=client, now=now)
        queues[queue_id] = offset
        self._touch(key)
        self._changed(now)
        return True

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset of a pending reset, else the committed offset, else -1."""
        key = topic + SEPARATOR + group
        if self._light(group):
            queue_id = LIGHT_QUEUE
        reset = self._resets.get(key, queue_id)
        if reset is not None:
            return reset
        queues = self._table.get(key)
        return -1 if queues is None else queues.get(queue_id, -1)

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Return all committed offsets of a group in a topic, by queue id."""
        return dict(self._table.get(topic + SEPARATOR + group, {}))

    def progress(self) -> list[tuple[str, str, dict[int, int], dict[int, int]]]:
        """Return topic, group, committed offsets and offsets of the next pulls for all groups. Thread-safe."""
        found: list[tuple[str, str, dict[int, int], dict[int, int]]] = []
        for key, queues in list(self._table.items()):
            topic, _, group = key.partition(SEPARATOR)
            found.append((topic, group, dict(queues), dict(self._pulls.get(key, {}))))
        return found

    def note_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Record the offset of a group's next pull. Shown as progress, never used to resume."""
        key = topic + SEPARATOR + group
        queues = self._pulls.get(key)
        if queues is None:
            queues = self._pulls[key] = {}
            self._owns(group, 1)
        known = queues.get(queue_id)
        if known == offset:
            return
        if known is None:
            if self.count >= self._most:
                return  # informational, for operators; it is not used to resume
            self.count += 1
        queues[queue_id] = offset
        self._pull_rows.touch(key)

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset of the group's next pull, or -1 if it has never pulled."""
        queues = self._pulls.get(topic + SEPARATOR + group)
        return -1 if queues is None else queues.get(queue_id, -1)

    def assign_reset(self, group: str, topic: str, queue_id: int, offset: int, now: int) -> None:
        """Set the offset, and return it to the group's next pull of this queue. Raises `Refused` 1 if the limit is
        reached."""
        key = topic + SEPARATOR + group
        queues = self._table.get(key, {})
        if queue_id not in queues:
            self._check_room(1)
        self._resets.put(key, queue_id, offset)
        queues[queue_id] = offset
        if key not in self._table:
            self._owns(group, 1)
        self._table[key] = queues
        self._touch(key)
        self._ordered(now)
        self._effects.release((topic, queue_id))

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Return whether a reset of this queue is pending."""
        return self._resets.get(topic + SEPARATOR + group, queue_id) is not None

    def take_reset(self, group: str, topic: str, queue_id: int) -> int:
        """Remove and return the pending reset of this queue, or -1 if there is none."""
        if not self._resets.by_key:
            return -1
        return self._resets.take(topic + SEPARATOR + group, queue_id)

    def has_group(self, group: str) -> bool:
        """Return whether the group has committed an offset or pulled."""
        return group in self._owners

    def _owns(self, group: str, more: int) -> None:
        count = self._owners.get(group, 0) + more
        if count > 0:
            self._owners[group] = count
        else:
            self._owners.pop(group, None)

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which the group has offsets."""
        return [topic for topic, owner in self.pairs() if owner == group]

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets in the topic."""
        return [owner for name, owner in self.pairs() if name == topic]

    def clone(self, source: str, target: str, topic: str, now: int) -> None:
        """Copy the offsets of one group in a topic to another (CLONE_GROUP_OFFSET). Raises `Refused` 1 if the limit is
        reached.

        Unlike in RocketMQ, pending resets of the target are dropped: they would undo the copy.
        """
        queues = self._table.get(topic + SEPARATOR + source)
        if queues is not None:
            self._check_room(len(queues) - len(self._table.get(topic + SEPARATOR + target, {})))
            if topic + SEPARATOR + target not in self._table:
                self._owns(target, 1)
            self._table[topic + SEPARATOR + target] = dict(queues)
            self._resets.forget(topic + SEPARATOR + target)  # an older reset, which the next pull would obey
            self._touch(topic + SEPARATOR + target)
            self._ordered(now)

    def remove_group(self, group: str, now: int) -> None:
        """Remove a deleted group."""
        self._remove([key for key in self._all_keys() if key.partition(SEPARATOR)[2] == group], now)

    def remove_topic(self, topic: str, now: int) -> None:
        """Remove a deleted topic."""
        self._remove([key for key in self._all_keys() if key.partition(SEPARATOR)[0] == topic], now)

    def cut(self, end_of: Callable[[str, int], int], now: int) -> int:
        """Clamp offsets to the ends of their queues, `end_of(topic, queue_id)`, and later commits of clients as long as
        this broker is the master. Return the number of changed offsets.

        After a power failure or an election the log may lack messages that a group has consumed, and other messages get
        those offsets. Clients continue to commit the lost offsets until a pull corrects them. System groups are left to
        their services.
        """
        self._end_of = end_of
        found = 0
        for key, queues in self._table.items():
            topic, _, group = key.partition(SEPARATOR)
            if is_system_group(group):
                continue
            for queue_id, offset in queues.items():
                if offset > 0 and offset > (end := end_of(topic, queue_id)):
                    queues[queue_id] = end
                    if self._resets.get(key, queue_id) is not None:
                        self._resets.put(key, queue_id, end)
                    self._touch(key)
                    found += 1
        if found:
            self._changed(now)
        return found

    def role_changed(self, role: Role, now: int) -> None:
        """Called when the role changes. A new master no longer copies offsets, and clamps them to its log."""
        self.following = not role.may_write
        self._since = CommitsAhead()
        if role.may_write and self._end_of is not None and self.cut(self._end_of, now):
            self._effects.persist(self.persist_name)  # commits since the call of `cut`

    def follow(self, table: Mapping[str, dict[int, int]], end_of: Callable[[str, int], int]) -> int:
        """Copy the offsets of the master, by `topic@group`, and return how many exceed the limit. Groups that the
        master does not know remain.

        Offsets committed here during the master's absence remain until the master reaches them or goes back. An offset
        beyond `end_of(topic, queue_id)` is dropped: only a lost log had these messages.
        """
        left_out = 0
        for key, theirs in table.items():
            mine = self._table.get(key)
            offsets = theirs
            if key in self._since:
                topic = key.partition(SEPARATOR)[0]
                ahead = self._since.ahead(key, theirs, mine or {})
                offsets = theirs | {queue: offset for queue, offset in ahead.items() if offset <= end_of(topic, queue)}
            if offsets == (mine or {}):
                continue
            more = len(offsets) - len(mine or ())
            group = key.partition(SEPARATOR)[2]
            if more > 0 and self.count + more > self._most and group not in FIRST_GROUPS:
                left_out += more
                continue
            self.count += more
            if mine is None:
                self._owns(group, 1)
            self._table[key] = offsets
            self._resets.forget(key)  # the group has continued on the master since
            self._touch(key)
        return left_out

    def take_back(
        self,
        table: Mapping[str, dict[int, int]],
        version: Mapping[str, Any],
        end_of: Callable[[str, int], int],
        now: int,
        transactions: bool = False,
    ) -> None:
        """On a returning master: adopt offsets that groups committed on a slave, if they are higher and exist here.

        A copy older than this table is ignored, because a group may have been reset since. `transactions` also adopts
        the progress of half messages, which the slave sent to other sets.
        """
        theirs = version_of(version)
        if (theirs.counter, theirs.timestamp) < (self.data_version.counter, self.data_version.timestamp):
            return
        for key, queues in table.items():
            topic, _, group = key.partition(SEPARATOR)
            handed = transactions and group == TRANSACTION_GROUP
            read = {} if is_system_group(group) and not handed else queues
            for queue_id, offset in read.items():
                if self.query(group, topic, queue_id) < offset <= end_of(topic, queue_id):
                    self.commit(group, topic, queue_id, offset, now)
        self.data_version = theirs
        self._effects.persist(self.persist_name)

    def followed(self, version: Mapping[str, Any]) -> None:
        """Adopt the version of the master, whose offsets are all applied."""
        self.data_version = version_of(version)
        self._effects.persist(self.persist_name)

    def groups_by_name(self) -> dict[str, list[str]]:
        """Return the topics in which each group has offsets."""
        found: dict[str, list[str]] = {}
        for topic, group in self.pairs():
            found.setdefault(group, []).append(topic)
        return found

    def add_members(self, text: Text) -> None:
        if self._lmq:
            text.rows("lmqOffsetTable", self._light_rows.encoded())
        text.rows("offsetTable", self._rows.encoded())
        text.rows("pullOffsetTable", self._pull_rows.encoded())

    def text(self) -> Text:
        text = super().text()
        if self.following:
            text.member(FROM_SLAVE, b"true")  # RocketMQ ignores it
        return text

    def answer(self) -> bytes:
        """Return the body of GET_ALL_CONSUMER_OFFSET (43)."""
        for rows in self._all_rows:
            rows.finish()
        text = Text()
        text.member("dataVersion", encode_body(self.data_version.to_json()))
        text.member("groupTopicMap", encode_body(self.groups_by_name()))
        self.add_members(text)
        return text.join()

    def _touch(self, key: str) -> None:
        """Note that a committed offset of a group in a topic changed."""
        (self._light_rows if self._light(key.partition(SEPARATOR)[2]) else self._rows).touch(key)

    def _light_row(self, key: str) -> bytes:
        queues = self._table.get(key)
        return b"" if queues is None else b"%d" % queues.get(LIGHT_QUEUE, 0)

    def load(self, data: bytes) -> None:
        """Load a file written by Java (unquoted queue ids) or Bolide. Raises `ValueError` if it is neither."""
        stored = StoredOffsets(data)
        # The following steps cannot fail, so an unreadable file changes nothing.
        self._table, self._pulls, self.from_slave = stored.table, stored.pulls, stored.from_slave
        self._owners = {}
        for table in (self._table, self._pulls):
            for key in table:
                self._owns(key.partition(SEPARATOR)[2], 1)
        self.count = sum(map(len, self._table.values())) + sum(map(len, self._pulls.values()))
        for key in self._table:
            self._touch(key)
        for key in self._pulls:
            self._pull_rows.touch(key)
        self.data_version = stored.version

    def due(self, now: int) -> int | None:
        return self._next_persist if self._dirty else None

    def tick(self, now: int, budget: int) -> None:
        if self._dirty:
            self._dirty = False
            self._effects.persist(self.persist_name)
        self._next_persist = now + self._persist_interval_ms

    def _changed(self, now: int) -> None:
        self._count(now)
        if not self._dirty:
            self._dirty = True
            self._next_persist = max(self._next_persist, now + self._persist_interval_ms)
            self._effects.wake(self)

    def _check_room(self, more: int) -> None:
        if more > 0 and self.count + more > self._most:
            text = f"maxConsumerOffsets is {self._most}: delete groups or topics that nobody uses, or raise it"
            raise Refused(SYSTEM_ERROR, f"{more} more offsets cannot be stored: {text}")
        self.count += more

    def _ordered(self, now: int) -> None:
        """Persist an operator's change before the response is sent, so that neither a crash nor an older copy on a
        slave can undo it."""
        self.data_version.next(now)
        self._count(now)
        self._effects.persist(self.persist_name)

    def _count(self, now: int) -> None:
        self._commits += 1
        if self._commits % VERSION_EVERY == 0:
            self.data_version.next(now)

    def _light(self, group: str) -> bool:
        return self._lmq and group.startswith(LMQ_PREFIX)

    def _all_keys(self) -> dict[str, None]:
        """Return the keys with a committed offset or a pull."""
        return dict.fromkeys(self._table) | dict.fromkeys(self._pulls)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield topic and group of all committed offsets. Offsets may be committed or removed during the iteration."""
        for key in list(self._table):
            topic, separator, group = key.partition(SEPARATOR)
            if separator:
                yield topic, group

    def _remove(self, keys: list[str], now: int) -> None:
        for key in keys:
            self._owns(key.partition(SEPARATOR)[2], -((key in self._table) + (key in self._pulls)))
            self.count -= len(self._table.pop(key, {})) + len(self._pulls.pop(key, {}))
            self._resets.forget(key)
            self._touch(key)
            self._since.forget(key)
            self._pull_rows.touch(key)
        if keys:
            self._ordered(now)
