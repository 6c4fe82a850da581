"""Which services a broker is made of, and what each is given. A new service is one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bolide.broker.assignments import AssignmentService
from bolide.broker.client_resets import ClientResets
from bolide.broker.clients import Clients
from bolide.broker.consume_stats import ConsumeStatsService
from bolide.broker.consumer_offsets import ConsumerOffsets
from bolide.broker.delay import DelayService
from bolide.broker.effects import Effects
from bolide.broker.filters import ConsumerFilters
from bolide.broker.group_admin import GroupAdminService
from bolide.broker.group_expiry import GroupExpiry
from bolide.broker.groups import GroupTable
from bolide.broker.heartbeats import HeartbeatService
from bolide.broker.inspect import InspectService
from bolide.broker.locks import LockService, QueueLocks
from bolide.broker.offset_moved import OffsetMovedEvents
from bolide.broker.offsets import OffsetService
from bolide.broker.options import BrokerOptions
from bolide.broker.pull import PullService
from bolide.broker.put import PutDoor
from bolide.broker.query import QueryService
from bolide.broker.recall import RecallService
from bolide.broker.relay import RelayService
from bolide.broker.replies import ReplyService
from bolide.broker.retries import RetryService
from bolide.broker.send import SendService
from bolide.broker.stats import BrokerStats
from bolide.broker.timer_rules import TimerRules
from bolide.broker.timers import TimerService
from bolide.broker.topic_admin import Picks, TopicAdminService
from bolide.broker.topic_stats import TopicStatsService
from bolide.broker.topics import TopicTable
from bolide.broker.transactions import TransactionService
from bolide.broker.uniq_key import UniqKeys
from bolide.layout.delay import parse_delay_levels
from bolide.layout.message_id import host_text
from bolide.node.services import Services
from bolide.node.store_watch import StoreWatch
from bolide.store.message_store import MessageStore
from bolide.store.timer_files import TimerFiles


class BrokerParts:
    """The tables and services of one broker, put together."""

    def __init__(
        self,
        options: BrokerOptions,
        store: MessageStore,
        effects: Effects,
        uniq_keys: UniqKeys,
        settings: Callable[[], dict[str, str]],
        update: Callable[[dict[str, str]], str | None],
        disk: Callable[[], tuple[int, int]],
        log: Any,
        filters: ConsumerFilters,
        more: Sequence[Any],
        now: int,
        picks: Picks | None = None,
    ) -> None:
        levels = parse_delay_levels(options.message_delay_level)
        self.stats = stats = BrokerStats(now)
        self.topics = topics = TopicTable(options, effects, now)
        self.groups = groups = GroupTable(options, effects, now)
        self.offsets = offsets = ConsumerOffsets(
            effects, options.enable_lmq, now, options.max_consumer_offsets, options.flush_consumer_offset_interval
        )
        self.clients = clients = Clients(options.client_channel_expired_time)
        self.locks = locks = QueueLocks(options.rebalance_lock_max_live_time, options.max_queue_locks)
        rules = TimerRules(options)
        self.door = door = PutDoor(store, options.max_message_size, len(levels), rules, stats.topic_puts)
        self.delay = delay = DelayService(levels, store, door, effects, now, options.flush_delay_offset_interval)
        wheel = TimerFiles(store.files, store.root, rules.precision, options.mapped_file_size_timer_log)
        self.timers = timers = TimerService(options, rules, store, door, effects, wheel, now)
        self.assignments = assignments = AssignmentService(options, topics, groups, clients, effects)
        moved = OffsetMovedEvents(door, options.broker_name, options.offset_moved_event_enable)
        topic_stats = TopicStatsService(options, stats, now)

        self.transactions = transactions = TransactionService(
            options, store, door, topics, offsets, clients, effects, now, log
        )

        def address() -> str:
            return host_text(door.store_host)

        filters.store_time = store.store_time
        self.pulls = pulls = PullService(options, store, topics, groups, offsets, clients, stats, filters, moved)
        resets = None
        if not options.use_server_side_reset_offset:
            resets = ClientResets(options.broker_name, store, offsets, topics, clients, effects)
        made: list[Any] = [
            store,
            StoreWatch(store, log, now),
            stats,
            topic_stats,
            topics,
            groups,
            offsets,
            delay,
            timers,
            RecallService(options, door, topics),
            SendService(options, door, topics, groups, locks, uniq_keys, stats, transactions),
            transactions,
            pulls,
            filters,
            OffsetService(options, store, offsets, topics, groups, clients, resets),
            HeartbeatService(options, effects, clients, topics, groups, filters),
            GroupExpiry(options, store, groups, topics, offsets, clients, now),
            LockService(locks),
            RetryService(options, store, door, topics, groups, stats),
            QueryService(store),
            TopicAdminService(options, store, topics, offsets, picks),
            GroupAdminService(options, groups, offsets, clients, address),
            ConsumeStatsService(options, store, topics, groups, offsets, clients, topic_stats, address),
            InspectService(options, store, stats, delay, timers, clients, filters, topics, settings, update, disk, now),
            RelayService(options.broker_name, clients, store, topics, groups),
            ReplyService(options, door, topics, clients),
            assignments,
            *more,
        ]
        self.services = Services(made)
