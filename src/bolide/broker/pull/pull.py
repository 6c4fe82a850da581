"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): checks in RocketMQ's order, the read, and the response.

From PullMessageProcessor and DefaultPullMessageResultHandler (docs/protocol/behaviour.md 1). A pull without result that
may wait becomes a `Hold`. A pull whose records are not in memory becomes a `Cold` and is run again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.core.channel import Channel
from bolide.broker.core.names import NO_LITE_TOPICS, is_system_group
from bolide.broker.core.outcome import Cold, Hold, NewRecords, Outcome, Reply, Waiter
from bolide.broker.core.role import Role
from bolide.broker.core.service import Routes, Service
from bolide.broker.core.stats import BrokerStats, count
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.pull.offset_moved import OffsetMovedEvents
from bolide.broker.pull.refusals import BY_BROKER, BY_GROUP, BY_TOPIC, forbid, refuse
from bolide.broker.pull.subscription_filters import SubscriptionFilters
from bolide.broker.refused import PULLS_AT_MASTER
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.groups import GroupTable, SubscriptionGroupConfig
from bolide.broker.tables.pull_filter import PullFilter
from bolide.broker.tables.topics import TopicTable
from bolide.layout.names import LMQ_PREFIX, MASTER_ID
from bolide.layout.permissions import PERM_READ
from bolide.remoting.bulk_pulls import bulk_bytes
from bolide.remoting.codes import (
    INVALID_PARAMETER,
    LITE_PULL_MESSAGE,
    PULL_MESSAGE,
    PULL_NOT_FOUND,
    PULL_OFFSET_MOVED,
    PULL_RETRY_IMMEDIATELY,
    SUBSCRIPTION_GROUP_NOT_EXIST,
    SUCCESS,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
)
from bolide.remoting.command import Command, make_response
from bolide.remoting.damaged_answer import damaged_ext
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.pull import PullMessageRequestHeader
from bolide.remoting.request_access import LITE_PULL, PULL
from bolide.remoting.request_routes import Kind, RawRoute
from bolide.remoting.response_bytes import PullResponse
from bolide.store.errors import RecordDamaged
from bolide.store.message_store import MessageStore
from bolide.store.reading.read import MAX_PULL_BYTES
from bolide.store.reading.read_result import (
    FOUND,
    NO_MATCHED_LOGIC_QUEUE,
    NO_MESSAGE_IN_QUEUE,
    OFFSET_FOUND_NULL,
    OFFSET_OVERFLOW_BADLY,
    OFFSET_OVERFLOW_ONE,
    OFFSET_RESET,
    OFFSET_TOO_SMALL,
    ReadResult,
    Wanted,
    status_name,
)

FLAG_COMMIT_OFFSET: Final = 0x1
FLAG_SUSPEND: Final = 0x2
FLAG_LITE_PULL: Final = 0x10

FILTER_MS: Final = 10
"""Maximum time that the expression of one pull checks records. The response contains the offset of the next pull."""

_BY_STATUS: Final[dict[str, int]] = {
    "FOUND": SUCCESS,
    "MESSAGE_WAS_REMOVING": PULL_RETRY_IMMEDIATELY,
    "NO_MATCHED_MESSAGE": PULL_RETRY_IMMEDIATELY,
    "OFFSET_FOUND_NULL": PULL_NOT_FOUND,
    "OFFSET_OVERFLOW_ONE": PULL_NOT_FOUND,
    "OFFSET_OVERFLOW_BADLY": PULL_OFFSET_MOVED,
    "OFFSET_TOO_SMALL": PULL_OFFSET_MOVED,
    "OFFSET_RESET": PULL_OFFSET_MOVED,
}

_CORRECTED: Final = frozenset(
    {
        NO_MATCHED_LOGIC_QUEUE,
        NO_MESSAGE_IN_QUEUE,
        OFFSET_FOUND_NULL,
        OFFSET_OVERFLOW_BADLY,
        OFFSET_OVERFLOW_ONE,
        OFFSET_TOO_SMALL,
    }
)
"""Statuses whose next offset is corrected to the range of the queue (Java's nextOffsetCorrection)."""
_ORDINARY: Final = frozenset({PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY, PULL_OFFSET_MOVED})


@final
class PullService(Service):
    """Returns stored records to consumers."""

    def __init__(
        self,
        options: BrokerOptions,
        writer: LogWriter,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        stats: BrokerStats,
        filters: SubscriptionFilters,
        clock: Callable[[], int] | None = None,
    ) -> None:
        """`writer` stores an event for each consumer whose offset is corrected. `clock` returns the current time in
        ms."""
        self._moved: OffsetMovedEvents = OffsetMovedEvents(
            writer, options.place.broker_name, options.pull.offset_moved_event_enable
        )
        self.clock: Callable[[], int] | None = clock
        """Returns the current time in ms, to limit the time of a filter that finds few records. None: no limit."""
        self._store: MessageStore = writer.store
        self._topics: TopicTable = topics
        self._groups: GroupTable = groups
        self._offsets: ConsumerOffsets = offsets
        self._stats: BrokerStats = stats
        self._filters: SubscriptionFilters = filters
        self._spoken_name: str = options.place.spoken_name
        self._readable: bool = options.tables.broker_permission & PERM_READ != 0
        self._role: Role = writer.role
        self._slave_read: bool = options.pull.slave_read_enable
        self._check_in_slave: bool = options.pull.offset_check_in_slave
        self._lite: bool = options.pull.lite_pull_message_enable
        self._long_polling: bool = options.pull.long_polling_enable
        self._short_polling_ms: int = options.pull.short_polling_time_mills
        self._resets: bool = options.pull.use_server_side_reset_offset

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._readable = options.tables.broker_permission & PERM_READ != 0

    def routes(self) -> Routes:
        """Return the routes. Pulls decode their header themselves, because a held pull runs again with the same
        command."""
        return [
            RawRoute(
                code,
                PullMessageRequestHeader,
                self.on_pull,
                Kind.PULL,
                durable=False,
                fast_port=False,
                at_master=PULLS_AT_MASTER,
                ordinary=_ORDINARY,
                access=access,
            )
            for code, access in ((PULL_MESSAGE, PULL), (LITE_PULL_MESSAGE, LITE_PULL))
        ]

    def on_pull(self, channel: Channel, command: Command, now: int) -> Outcome:
        """Process a pull from the network. It may be held."""
        self._stats.pulls += 1
        return self.pull(channel, command, True, now)

    def pull(self, channel: Channel, command: Command, first: bool, now: int, *, began: int = -1) -> Outcome:
        """Run the whole pull. If `first` is False, it was held: it is not held again, and commits no offset.

        `began`: time of the first attempt in ms if the records had to be loaded, otherwise -1.
        """
        header = decode_header(command, PullMessageRequestHeader)
        refused = self._broker_refuses(command)
        if refused is not None:
            return refused
        group_name: str = header.consumer_group
        group = self._groups.find(group_name, now)
        if group is None:
            return refuse(command, SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group_name}] does not exist")
        if not group.consume_enable:
            return forbid(command, BY_GROUP, f"subscription group no permission, {group_name}")
        refused = self._topic_refuses(channel, command, header)
        if refused is not None:
            return refused
        chosen = self._filters.choose(command, header, group)
        if isinstance(chosen, Reply):
            return chosen
        return self._read(channel, command, header, group, chosen, first, now, began=began)

    def _broker_refuses(self, command: Command) -> Reply | None:
        if not self._readable:
            return forbid(command, BY_BROKER, f"the broker[{self._spoken_name}] pulling message is forbidden")
        if command.code == LITE_PULL_MESSAGE and not self._lite:
            return forbid(command, BY_BROKER, f"the broker[{self._spoken_name}] for lite pull consumer is forbidden")
        return None

    def _topic_refuses(self, channel: Channel, command: Command, header: PullMessageRequestHeader) -> Reply | None:
        topic = self._topics.get(header.topic)
        if topic is None:
            return refuse(command, TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist, apply first please!")
        if not topic.readable:
            return forbid(command, BY_TOPIC, f"the topic[{header.topic}] pulling message is forbidden")
        if header.queue_id < 0 or header.queue_id >= topic.read_queue_nums:
            return refuse(
                command,
                INVALID_PARAMETER,
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{channel.remote}]",
            )
        if header.lite_topic:
            return refuse(command, INVALID_PARAMETER, NO_LITE_TOPICS)
        return None

    def _read(
        self,
        channel: Channel,
        command: Command,
        header: PullMessageRequestHeader,
        group: SubscriptionGroupConfig,
        chosen: PullFilter,
        first: bool,
        now: int,
        *,
        began: int,
    ) -> Outcome:
        topic: str = header.topic
        queue_id: int = header.queue_id
        offset: int = header.queue_offset
        if not self._store.readable():
            return refuse(command, SYSTEM_ERROR, "store getMessage return null")
        if self._resets:
            reset = self._offsets.take_reset(header.consumer_group, topic, queue_id)
            if reset >= 0:
                return self._reset_to(reset, command, header, group, now)
        bulk = bulk_bytes(command)
        try:
            found = self._store.read(
                topic,
                queue_id,
                offset,
                max_count=max(header.max_msg_nums, 1),
                max_bytes=bulk if bulk > 0 else MAX_PULL_BYTES,
                wanted=Wanted(chosen.tag_codes, chosen.predicate, chosen.units, self._in_time(chosen), bulk > 0),
            )
        except RecordDamaged as error:  # clients retry at the same offset, also Java's
            self._store.maintenance.problem = str(error)
            return Reply(make_response(command, SYSTEM_ERROR, str(error), damaged_ext()))
        if found.cold:
            since = now if began < 0 else began
            return Cold(found.cold, lambda later: self.pull(channel, command, first, later, began=since))
        if first and header.sys_flag & FLAG_COMMIT_OFFSET and not is_system_group(header.consumer_group):
            at: int = header.commit_offset
            self._offsets.commit(header.consumer_group, topic, queue_id, at, now, channel.remote)
        corrects = self._role.may_write or self._check_in_slave
        # Do not correct offsets on a slave: its queues may lag or be incomplete.
        next_offset = found.next_begin_offset if corrects or found.status not in _CORRECTED else offset
        self._offsets.note_pull(header.consumer_group, topic, queue_id, int(next_offset))
        code = self._code(found.status, offset)
        if code != SUCCESS:
            self._stats.pulls_missed += 1
        if code == PULL_NOT_FOUND and first and header.sys_flag & FLAG_SUSPEND:
            return self._hold(channel, command, header, chosen, now)
        if code == PULL_OFFSET_MOVED and not corrects:
            code = PULL_RETRY_IMMEDIATELY
        elif code == PULL_OFFSET_MOVED:
            self._moved.note(header.consumer_group, topic, queue_id, asked=offset, given=int(next_offset), now=now)
        if code == SUCCESS:
            self._count(header, found, 0 if began < 0 else now - began)
        response = PullResponse(
            command,
            code,
            status_name(found.status),
            found.buffers,
            next_begin_offset=int(next_offset),
            min_offset=int(found.min_offset),
            max_offset=int(found.max_offset),
        )
        return self._answer(response, topic, group, suggest_slave=found.suggest_slave)

    def _reset_to(
        self, reset: int, command: Command, header: PullMessageRequestHeader, group: SubscriptionGroupConfig, now: int
    ) -> Reply:
        """Return the response that resets a consumer to the offset of a pending reset."""
        topic: str = header.topic
        queue_id: int = header.queue_id
        self._moved.note(header.consumer_group, topic, queue_id, asked=header.queue_offset, given=reset, now=now)
        response = PullResponse(
            command,
            PULL_OFFSET_MOVED,
            status_name(OFFSET_RESET),
            [],
            next_begin_offset=reset,
            min_offset=int(self._store.min_queue_offset(topic, queue_id)),
            max_offset=int(self._store.max_queue_offset(topic, queue_id)),
        )
        return self._answer(response, topic, group, suggest_slave=False)

    def _count(self, header: PullMessageRequestHeader, found: ReadResult, took: int) -> None:
        """Count a pull. Light queues share counters, as in LmqBrokerStatsManager, because their number is unlimited."""
        messages = int(found.message_count)
        size = int(found.size)
        self._stats.pulls_found += 1
        self._stats.got(messages, size)
        shown = LMQ_PREFIX if header.topic.startswith(LMQ_PREFIX) else header.topic
        owner = LMQ_PREFIX if header.consumer_group.startswith(LMQ_PREFIX) else header.consumer_group
        key = f"{shown}@{owner}"
        count(self._stats.group_gets, key, messages, size)
        waits = self._stats.disk_waits
        if took > 0 or waits:
            queue = f"{header.queue_id}@{key}"
            if took > 0 or queue in waits:
                count(waits, queue, took, 0)

    def _in_time(self, chosen: PullFilter) -> Callable[[], bool] | None:
        """Return a callable that ends a filtered read after FILTER_MS, or None if there is no filter. The next pull
        continues there."""
        clock = self.clock
        if chosen.predicate is None or clock is None:
            return None
        end = clock() + FILTER_MS
        return lambda: clock() >= end

    def _hold(
        self, channel: Channel, command: Command, header: PullMessageRequestHeader, chosen: PullFilter, now: int
    ) -> Hold:
        wait: int = header.suspend_timeout_millis if self._long_polling else self._short_polling_ms
        self._stats.pulls_held += 1
        records = NewRecords(header.queue_offset, chosen.tag_codes, chosen.predicate, chosen.cost)
        waiter = Waiter(
            channel,
            command,
            (header.topic, header.queue_id),
            now + max(wait, 0),
            lambda later: self.pull(channel, command, False, later),
            records,
        )
        return Hold(waiter)

    def _code(self, status: int, offset: int) -> int:
        if status == FOUND:
            return SUCCESS
        if status in (NO_MATCHED_LOGIC_QUEUE, NO_MESSAGE_IN_QUEUE):
            return PULL_NOT_FOUND if offset == 0 else PULL_OFFSET_MOVED
        return _BY_STATUS[status_name(status)]

    def _answer(
        self, response: PullResponse, topic: str, group: SubscriptionGroupConfig, *, suggest_slave: bool
    ) -> Reply:
        if self._slave_read:
            response.suggest_which_broker_id = (
                group.which_broker_when_consume_slowly if suggest_slave else group.broker_id
            )
            if self._role.broker_id != MASTER_ID and not suggest_slave and not self._role.masterless:
                # A slave sends consumers that are not far behind back to the master (5.x).
                response.suggest_which_broker_id = 0
                if response.code != SUCCESS:
                    response.code = PULL_RETRY_IMMEDIATELY
        config = self._topics.get(topic)
        response.topic_sys_flag = config.topic_sys_flag if config is not None else 0
        response.group_sys_flag = group.group_sys_flag
        return Reply(response)
