"""Creates the services of a broker and connects them. A new service is one line here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from msgspec import Struct

from bolide.access.gate import Gate, Rules
from bolide.access.plain_accounts import Accounts
from bolide.access.plain_gate import PlainGate
from bolide.access.policies import Acls
from bolide.access.users import Users
from bolide.broker.append.log_writer import LogWriter
from bolide.broker.append.timer_rules import TimerRules
from bolide.broker.append.uniq_key import UniqKeys
from bolide.broker.consumers.assignments import AssignmentService
from bolide.broker.consumers.client_resets import ClientResets
from bolide.broker.consumers.group_expiry import GroupExpiry
from bolide.broker.consumers.heartbeats import HeartbeatService
from bolide.broker.consumers.locks import LockService, QueueLocks
from bolide.broker.consumers.offsets import OffsetService
from bolide.broker.core.effects import Effects
from bolide.broker.core.role import Role
from bolide.broker.core.service import Service
from bolide.broker.core.stats import BrokerStats
from bolide.broker.delay.delay_levels import DelayService
from bolide.broker.delay.followed_timer import FollowedTimer
from bolide.broker.delay.recall import RecallService
from bolide.broker.delay.timers import TimerService
from bolide.broker.operator.acl_admin import AclAdminService
from bolide.broker.operator.broker_config import BrokerConfigService
from bolide.broker.operator.consume_stats import ConsumeStatsService
from bolide.broker.operator.engines import EngineService
from bolide.broker.operator.fall_behind import FallBehind
from bolide.broker.operator.following import FollowedTables, Following, StoredTopics
from bolide.broker.operator.group_admin import GroupAdminService
from bolide.broker.operator.inspection import InspectedNode, InspectService, MachineUse
from bolide.broker.operator.lag_times import LagTimes
from bolide.broker.operator.query import QueryService
from bolide.broker.operator.relay import RelayService
from bolide.broker.operator.scrubbing import ScrubService
from bolide.broker.operator.topic_admin import Picks, TopicAdminService
from bolide.broker.operator.topic_stats import TopicStatsService
from bolide.broker.operator.user_admin import UserAdminService
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.pull.pull import PullService
from bolide.broker.pull.subscription_filters import SubscriptionFilters
from bolide.broker.send.request_reply import ReplyService
from bolide.broker.send.retries import RetryService
from bolide.broker.send.send import SendService
from bolide.broker.tables.backward_commits import BackwardCommits
from bolide.broker.tables.clients import Clients
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.filters import ConsumerFilters
from bolide.broker.tables.groups import GroupTable
from bolide.broker.tables.topics import TopicTable
from bolide.broker.tables.untold_topics import UntoldTopics
from bolide.broker.transactions.halves_away import HalvesAway
from bolide.broker.transactions.transactions import TransactionService
from bolide.layout.delay import parse_delay_levels
from bolide.layout.message_id import host_text
from bolide.layout.names import TIMER_TOPIC
from bolide.layout.timer import wheel_precision
from bolide.node.loop.persist import ConfigFiles
from bolide.node.loop.services import Services
from bolide.node.loop.store_watch import StoreUpkeep, StoreWatch
from bolide.node.settings.tool_keys import with_tool_keys
from bolide.store.message_store import MessageStore
from bolide.store.timer.timer_files import TimerFiles


class Surroundings(Struct, frozen=True):
    """Interface of a broker's services to the node around them."""

    role: Role
    """The role of this broker. `role.become` changes it."""
    store_host: bytes
    """The address stored with every record: 4 or 16 address bytes and an int32 port."""
    uniq_keys: UniqKeys
    settings: Callable[[], dict[str, str]]
    """Every setting in force, by Java key."""
    update: Callable[[dict[str, str]], str | None]
    """Changes settings. Returns None on success, otherwise the reason."""
    machine: Callable[[], MachineUse]
    """Returns the resource use of process and store."""
    clock: Callable[[], int]
    """The current time, for work that watches how long it takes."""
    monotonic: Callable[[], float]
    """Seconds, to measure work in the pool."""
    ask_route: Callable[[str], None] | None
    """Fetches a topic's route from a name server, or None without a name server."""
    log: logging.Logger


class BrokerTables(Struct, frozen=True):
    """The tables that the services of a broker share."""

    topics: TopicTable
    groups: GroupTable
    offsets: ConsumerOffsets
    clients: Clients
    locks: QueueLocks

    @classmethod
    def of(
        cls, options: BrokerOptions, effects: Effects, backward: BackwardCommits, following: bool, now: int
    ) -> BrokerTables:
        """Return empty tables with the limits of the settings. `backward`, `following`: see `ConsumerOffsets`."""
        return cls(
            TopicTable(options, effects, now),
            GroupTable(options, effects, now),
            ConsumerOffsets(
                effects,
                options.shape.enable_lmq,
                now,
                options.consumers.max_consumer_offsets,
                options.consumers.flush_consumer_offset_interval,
                backward,
                following,
            ),
            Clients(options.connections.channel_expired_timeout),
            QueueLocks(options.consumers.rebalance_lock_max_live_time, options.consumers.max_queue_locks),
        )


class BrokerParts:
    """The connected tables and services of one broker."""

    def __init__(
        self,
        options: BrokerOptions,
        store: MessageStore,
        effects: Effects,
        around: Surroundings,
        filters: ConsumerFilters,
        more: Sequence[Service],
        now: int,
        picks: Picks | None = None,
    ) -> None:
        levels = parse_delay_levels(options.shape.message_delay_level)
        self.role = role = around.role
        self.stats = stats = BrokerStats(now)
        backward = BackwardCommits(stats.backward_commits, around.log)
        tables = BrokerTables.of(options, effects, backward, not role.may_write, now)
        self.topics, self.groups, self.offsets = topics, groups, offsets = tables.topics, tables.groups, tables.offsets
        self.clients, self.locks = clients, locks = tables.clients, tables.locks
        wheel = timer_files(options, store)
        rules = TimerRules(options, wheel.wheel.count_at)
        self.writer = writer = LogWriter(store, around.store_host, len(levels), rules, stats.topic_puts, role)
        self.delay = delay = DelayService(levels, writer, effects, now, options.delay.flush_delay_offset_interval)
        self._followed = followed = FollowedTimer(effects)
        self.timers = timers = TimerService(options, rules, writer, effects, wheel, now, delay.damaged, followed)
        self.assignments = assignments = AssignmentService(options, topics, groups, clients, effects, around.ask_route)
        topic_stats = TopicStatsService(options, stats, FallBehind(store, offsets), now)
        self.lag_times = LagTimes(store, offsets, effects, now)

        log = around.log
        transactions = TransactionService(options, writer, topics, offsets, clients, effects, now, log)
        self.transactions = transactions
        subscriptions = SubscriptionFilters(options, groups, clients, filters)
        self.pulls = pulls = PullService(options, writer, topics, groups, offsets, stats, subscriptions, around.clock)
        resets = None
        if not options.pull.use_server_side_reset_offset:
            resets = ClientResets(options.place.broker_name, store, offsets, topics, clients, effects)
        self.sends = sends = SendService(options, writer, topics, groups, locks, around.uniq_keys, stats, transactions)
        self._topic_admin = self._made_topic_admin(options, store, picks)
        self._effects = effects
        inspected = InspectedNode(around.machine, self._save_tables)
        self.inspection = InspectService(options, store, stats, delay, timers, clients, filters, inspected)
        made: list[Service] = [
            StoreUpkeep(store),
            StoreWatch(store, log, now),
            stats,
            topic_stats,
            # only the metrics pages show ages
            *([self.lag_times] if options.process.metrics_exporter_type == "PROM" else []),
            topics,
            groups,
            offsets,
            delay,
            timers,
            delay.damaged,
            RecallService(options, writer, topics),
            sends,
            transactions,
            pulls,
            filters,
            OffsetService(options, store, offsets, topics, groups, clients, resets),
            HeartbeatService(options, effects, clients, topics, groups, filters),
            GroupExpiry(options, store, groups, topics, offsets, clients, now),
            LockService(locks),
            RetryService(options, store, writer, topics, groups, stats),
            QueryService(options, store),
            self._topic_admin,
            GroupAdminService(options, groups, offsets, clients, self._address, stats),
            ConsumeStatsService(options, store, topics, groups, offsets, clients, topic_stats, self._address),
            self.inspection,
            followed,
            BrokerConfigService(options, topics, lambda: with_tool_keys(around.settings()), around.update, now),
            RelayService(options.place.broker_name, clients, store, topics, groups),
            ReplyService(options, writer, topics, clients),
            assignments,
            *self._operated(options, store, effects, around),
            *more,
        ]
        self.services = Services(made, around.clock)
        self._store = store
        self._take_role(around.clock)

    def _operated(
        self, options: BrokerOptions, store: MessageStore, effects: Effects, around: Surroundings
    ) -> Sequence[Service]:
        log = around.log
        self.scrub = ScrubService(options, store, effects, around.clock, around.monotonic, log)
        self.inspection.more.append(self.scrub.runtime)
        self._users, self._acls = Users(), Acls()
        acl_admin = AclAdminService(options, self._users, self._acls, effects)
        self.user_admin = UserAdminService(options, self._users, effects, acl_admin.dropped)
        self.untold = UntoldTopics(store, self.topics, self.role, effects, log)
        self._halves_away = away = HalvesAway(options, self.role, store, self.transactions.halves, effects)
        return self.user_admin, acl_admin, EngineService(options), self.untold, away, self.scrub

    def plain_gate(self, options: BrokerOptions, accounts: Accounts) -> PlainGate:
        """Return the ACL 1 authorizer, which aclEnable selects."""
        access = options.access
        return PlainGate(accounts, self.services.table.rows, access.authorization_strict, access.full_users)

    def gate(self, options: BrokerOptions) -> Gate | None:
        """Return the ACL 2 authorizer, or None if authenticationEnabled is false."""
        if not options.access.authentication_enabled:
            return None
        rules = Rules.of(options.access, options.place.broker_cluster_name)
        return Gate(self._users, self._acls, self.services.table.rows, rules)

    def _address(self) -> str:
        return host_text(self.writer.store_host)

    def _made_topic_admin(self, options: BrokerOptions, store: MessageStore, picks: Picks | None) -> TopicAdminService:
        forget = [self.stats.forget_topic, self.timers.metrics.forget, self.lag_times.forget_topic]
        return TopicAdminService(options, store, self.topics, self.offsets, picks, forget)

    def _save_tables(self) -> None:
        """Persist the tables that change often. All others are on disk before the response to a change is sent."""
        for table in (self.offsets, self.delay):
            self._effects.persist(table.persist_name)

    def _take_role(self, clock: Callable[[], int]) -> None:
        self._store.reput.copied = self.stats.copied
        self.services.serve_as(self.role)
        self.role.told.append(self.services.role_changed)

        def drop(topic: str) -> None:
            self._topic_admin.drop(topic, clock())

        def drop_older(topic: str, offset: int) -> None:
            # A tombstone above the end of this log is not from the master's current log. It would delete future
            # messages.
            if offset <= self._store.end_offset and self._store.queues.delete_older(topic, offset):
                self.offsets.remove_topic(topic, clock())

        def forget_restarted() -> None:
            for topic in self._store.queues.take_restarted():
                self.offsets.remove_topic(topic, clock())

        stored = StoredTopics(
            drop,
            lambda topic, queue_id: int(self._store.max_queue_offset(topic, queue_id)),
            drop_older,
            self._store.has_messages,
            self._store.has_messages_after,
        )
        tables = FollowedTables(
            self.topics, self.groups, self.offsets, self.assignments, self.delay, self.timers.metrics, self._followed
        )
        self.following = Following(tables, stored)
        """Applies the master's tables on a slave."""
        self.following.before_offsets.append(forget_restarted)

    def work_changed(self, now: int) -> None:
        """Called when the background work of this broker has changed, or the destination of its messages."""
        for service in (self.delay, self.timers, self.delay.damaged, self.transactions, self._halves_away):
            service.role_changed(self.role, now)
        self.services.start(now)

    def cut(self, configs: ConfigFiles, lossy: bool, now: int) -> int:
        """Clamp progress to the ends of queues, also on disk, before any record is stored. Otherwise a start after the
        next power failure would find longer queues and accept the progress. Return the number of changed consumer
        offsets. `lossy`: the log may lack consumed messages.

        After a power failure, an election or a truncation the log may lack consumed messages. After a power failure a
        queue with expired messages may have lost its units and start at 0 again. At a slave, groups commit offsets that
        only its master's log has reached; a promoted slave resets them. Raises `FileFailed`.
        """
        end_of = self._store.max_queue_offset
        lossy = lossy or (self.role.may_write and self.offsets.from_slave)
        consumers = self.offsets.cut(lambda topic, queue_id: int(end_of(topic, queue_id)), now) if lossy else 0
        if self.transactions.halves.cut(now) or consumers:
            configs.write_now(self.offsets.persist_name)
        if self.delay.cut(now):
            configs.write_now(self.delay.persist_name)
        if self._followed.cut(int(end_of(TIMER_TOPIC, 0))):
            configs.write_now(self._followed.persist_name)
        return consumers


def timer_files(options: BrokerOptions, store: MessageStore) -> TimerFiles:
    """Return the files of the timer's wheel, which are in the folder of the store."""
    precision = wheel_precision(options.delay.timer_precision_ms)
    return TimerFiles(store.files, store.root, precision, options.delay.mapped_file_size_timer_log)
