"""Metrics of a broker. A metric of RocketMQ has RocketMQ's name. Other names have the prefix `bolide_`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from bolide.broker.core.names import is_internal_topic, is_system_group
from bolide.broker.core.stats import PUT_MS, Durations
from bolide.broker.core.wait_table import WaitTable
from bolide.broker.operator.inspection import POOLS, MachineUse
from bolide.broker.options.composed import BrokerOptions
from bolide.layout.names import DLQ_PREFIX, RETRY_PREFIX
from bolide.monitor.families import Families
from bolide.node.assembly import BrokerParts
from bolide.node.loop.cold_reads import ColdReads
from bolide.node.loop.executor import Executor
from bolide.node.loop.front import Connections
from bolide.node.loop.persist import ConfigFiles
from bolide.node.metrics.certificates import add_certificates
from bolide.node.routes.registrar import Registration
from bolide.remoting.codes import language_name
from bolide.store.message_store import MessageStore
from bolide.store.scrub.finding import DamageKind
from bolide.store.scrub.scrub import Phase
from bolide.version import VERSION

STORAGE = {"storage_type": "local", "storage_medium": "disk"}
MILLI = 0.001
MICRO = 0.000001
PROCESSORS = {
    "send": "send", "pull": "pull", "litePull": "lite_pull", "query": "query_message", "EndTransaction": "transaction",
}  # fmt: skip
"""RocketMQ's label of each thread pool in `POOLS`."""


@dataclass(frozen=True)
class BrokerSource:
    """Sources of the metrics."""

    options: BrokerOptions
    parts: BrokerParts
    store: MessageStore
    executor: Executor
    waiters: WaitTable
    connections: Connections
    configs: ConfigFiles
    cold_reads: ColdReads
    registration: Registration | None
    certificate_ends: Callable[[], dict[str, int]]


class BrokerFigures:
    """Metrics of one broker."""

    def __init__(self, source: BrokerSource, machine: MachineUse) -> None:
        self._source = source
        self._machine = machine

    def add_all(self, families: Families, now: int) -> None:
        """Add all metrics. `now`: the node's clock."""
        self._traffic(families)
        self._clients(families)
        self._progress(families, now)
        self._storage(families)
        self._scrub(families, now)
        self._delays(families)
        self._waiting(families, now)
        self._durations(families)
        self._replication(families, now)
        self._node(families)
        wall = int(self._source.store.times.wall(now))
        add_certificates(families, self._source.certificate_ends(), wall)

    def _traffic(self, families: Families) -> None:
        stats = self._source.parts.stats
        for topic, tally in list(stats.topic_puts.items()):
            labels = {"topic": topic, "is_system": yes(is_internal_topic(topic))}
            families.counter("rocketmq_messages_in_total", "Messages stored.", tally.messages, **labels)
            families.counter("rocketmq_throughput_in_total", "Bytes of messages stored.", tally.size, **labels)
        for topic, tally in list(stats.topic_copies.items()):
            labels = {"topic": topic, "is_system": yes(is_internal_topic(topic))}
            families.counter("bolide_messages_copied_total", "Messages copied.", tally.messages, **labels)
            families.counter("bolide_throughput_copied_total", "Bytes of messages copied.", tally.size, **labels)
        for key, tally in list(stats.group_gets.items()):
            topic, _, group = key.partition("@")
            labels = of_group(topic, group)
            del labels["is_retry"]  # Java's counters have no such label
            families.counter("rocketmq_messages_out_total", "Messages given to consumers.", tally.messages, **labels)
            families.counter(
                "rocketmq_throughput_out_total", "Bytes of messages given to consumers.", tally.size, **labels
            )
        self._troubles_of_groups(families)
        families.counter("bolide_puts_failed_total", "Sends whose write failed.", stats.put_failed)
        families.counter("bolide_pulls_total", "Pulls that came in.", stats.pulls)
        families.counter("bolide_reads_found_total", "Reads of a queue that gave messages.", stats.pulls_found)
        families.counter("bolide_reads_missed_total", "Reads of a queue that gave none.", stats.pulls_missed)
        families.counter("bolide_requests_total", "Requests of all kinds.", stats.requests)
        families.counter("bolide_request_errors_total", "Requests that raised an error.", stats.handler_errors)
        families.counter("bolide_bad_frames_total", "Connections that broke the protocol.", stats.bad_frames)
        families.counter("bolide_connections_opened_total", "Connections that were accepted.", stats.connections)

    def _troubles_of_groups(self, families: Families) -> None:
        """Add counters whose increase triggers alerts. They start at 0 for every group, because Prometheus does not see
        the increase in a series that starts with its first burst."""
        stats = self._source.parts.stats
        puts, commits = dict(stats.topic_puts), dict(stats.backward_commits)
        groups = {name for name in list(self._source.parts.groups.table) if not is_system_group(name)}
        buried = {topic.removeprefix(DLQ_PREFIX) for topic in puts if topic.startswith(DLQ_PREFIX)}
        for group in sorted(groups | buried):
            topic = DLQ_PREFIX + group
            families.counter(
                "rocketmq_send_to_dlq_messages_total",
                "Messages that went to a dead letter queue.",
                puts[topic].messages if topic in puts else 0,
                topic=topic,
                consumer_group=group,
            )
        for group in sorted(groups | commits.keys()):
            text = "Commits that moved an offset back."
            families.counter("bolide_backward_commits_total", text, commits.get(group, 0), consumer_group=group)

    def _clients(self, families: Families) -> None:
        clients = self._source.parts.clients
        producers: Counter[tuple[str, str]] = Counter()
        for members in list(clients.producer_groups.values()):
            for client in list(members.values()):
                producers[language_name(client.language).lower(), str(client.version)] += 1
        for (language, version), count in producers.items():
            families.gauge(
                "rocketmq_producer_connections",
                "Connected producers.",
                count,
                language=language,
                version=version,
                protocol_type="remoting",
            )
        for group in list(clients.consumer_groups.values()):
            members_of = Counter(
                (language_name(client.language).lower(), str(client.version)) for client in list(group.clients.values())
            )
            for (language, version), count in members_of.items():
                families.gauge(
                    "rocketmq_consumer_connections",
                    "Connected consumers.",
                    count,
                    consumer_group=group.name,
                    language=language,
                    version=version,
                    consume_mode="pop" if group.consume_type == "CONSUME_POP" else "push",
                    protocol_type="remoting",
                    is_system=yes(is_system_group(group.name)),
                )

    def _progress(self, families: Families, now: int) -> None:
        parts, store = self._source.parts, self._source.store
        for topic, group, committed, pulled in parts.offsets.progress():
            lag = inflight = 0
            for queue_id, offset in committed.items():
                end = int(store.max_queue_offset(topic, queue_id))
                lag += max(end - offset, 0)
                inflight += max(min(pulled.get(queue_id, offset), end) - offset, 0)
            labels = of_group(topic, group)
            families.gauge("rocketmq_consumer_lag_messages", "Messages not consumed yet.", lag, **labels)
            families.gauge(
                "rocketmq_consumer_lag_latency_milliseconds",
                "Age of the oldest message not consumed yet.",
                parts.lag_times.age(topic, group, now) if lag else 0,
                **labels,
            )
            families.gauge(
                "rocketmq_consumer_inflight_messages", "Messages pulled and not consumed yet.", inflight, **labels
            )
            families.gauge(
                "rocketmq_consumer_ready_messages", "Messages not pulled yet.", max(lag - inflight, 0), **labels
            )

    def _storage(self, families: Families) -> None:
        store = self._source.store
        labels = STORAGE
        behind = {
            "rocketmq_storage_size_bytes": ("Bytes of the commit log.", store.end_offset - store.min_physical_offset()),
            "rocketmq_storage_flush_behind_bytes": (
                "Bytes written and not synced yet.", store.written_offset - store.flushed_offset,
            ),
            "rocketmq_storage_dispatch_behind_bytes": (
                "Bytes that may be read and are in no queue yet.", store.confirm_offset - store.dispatched_offset,
            ),
        }  # fmt: skip
        for name, (text, value) in behind.items():
            families.gauge(name, text, max(int(value), 0), **labels)
        families.gauge("bolide_store_writable", "1 while the store takes messages.", int(store.writable()))
        families.gauge("bolide_store_failed", "1 after a write or sync failed for good.", int(bool(store.failure)))
        families.gauge("bolide_disk_size_bytes", "Size of the disk of the store.", self._machine.disk_bytes)
        families.gauge("bolide_disk_free_bytes", "Free bytes of it.", self._machine.disk_free)
        families.gauge("bolide_log_tail_bytes", "Newest records kept in memory.", int(store.log.tail.size))
        families.gauge("bolide_cold_read_bytes", "Bytes kept for requests that wait.", self._source.cold_reads.kept())
        configs = self._source.configs
        families.counter("bolide_table_write_failures_total", "Writes of a table that failed.", configs.failed_writes)
        families.gauge("bolide_damaged_tables", "Tables that the start read from their .bak.", configs.damaged)
        damaged = "Reads and replicated records that did not match a CRC."
        families.counter("bolide_damaged_records_total", damaged, int(store.log.damaged))

    def _scrub(self, families: Families, now: int) -> None:
        status = self._source.parts.scrub.status()
        wall = int(self._source.store.times.wall(now))
        found = Counter(one.kind.value for one in status.findings)
        for kind in DamageKind:
            families.gauge("bolide_scrub_findings", "Damaged ranges of the store.", found[kind.value], kind=kind.value)
        families.gauge("bolide_scrub_unlisted", "Damaged ranges that are counted but not listed.", status.unlisted)
        families.gauge("bolide_scrub_enabled", "1 unless the scrub is paused.", int(status.phase is not Phase.PAUSED))
        families.gauge("bolide_scrub_pass_bytes", "Bytes of the log that the pass checks.", status.total)
        families.gauge("bolide_scrub_checked_bytes", "Bytes of the log that it has checked.", status.done)
        families.counter("bolide_scrub_read_bytes_total", "Bytes that the scrub has read.", status.bytes_read)
        families.counter("bolide_scrub_records_total", "Records that it has checked.", status.records)
        families.counter("bolide_scrub_passes_total", "Complete passes over the store.", status.passes)
        age = max(wall - status.finished, 0) * MILLI if status.finished else -1
        families.gauge("bolide_scrub_age_seconds", "Time since a pass was complete, -1 = never.", age)

    def _delays(self, families: Families) -> None:
        parts = self._source.parts
        families.gauge(
            "bolide_timer_wheel_messages", "Messages that wait for their time in the wheel.", parts.timers.in_wheel
        )
        families.gauge(
            "rocketmq_timer_enqueue_lag",
            "Timed messages that are not in the wheel yet.",
            parts.timers.not_in_wheel,
            **STORAGE,
        )
        families.gauge(
            "rocketmq_half_messages", "Half messages that wait for their end.", parts.transactions.halves.open_count
        )
        text = "Delayed messages that are due and whose records are damaged."
        families.gauge("bolide_damaged_delays", text, parts.delay.damaged.count)
        for level, (offset, end) in parts.delay.behind().items():
            families.gauge(
                "bolide_delay_level_messages", "Messages of a delay level that wait.", end - offset, level=str(level)
            )

    def _waiting(self, families: Families, now: int) -> None:
        source = self._source
        for pool, processor in PROCESSORS.items():
            count, _ = source.executor.outbox.waiting_for_turn(POOLS[pool][0])
            families.gauge(
                "rocketmq_processor_watermark", "Requests that wait for their turn.", count, processor=processor
            )
        families.gauge("bolide_held_pulls", "Pulls that wait for messages.", source.waiters.count)
        families.gauge("bolide_parked_sends", "Sends that wait for the log.", source.executor.parked_count)
        oldest = max(source.executor.gate.oldest(now), 0) * MILLI
        families.gauge("bolide_oldest_send_seconds", "How long the first of them has waited.", oldest)
        families.gauge("bolide_unread_bytes", "Bytes that peers have not read.", int(source.executor.outbox.unread))
        families.gauge("bolide_connections", "Open connections.", len(source.connections.channels))
        families.gauge("bolide_connections_limit", "The most that may be open.", source.connections.limit)

    def _durations(self, families: Families) -> None:
        stats = self._source.parts.stats
        puts = stats.put_times
        families.histogram(
            "bolide_send_seconds",
            "From the read of a send to its answer.",
            PUT_MS,
            puts.counts,
            puts.total_ms,
            unit=MILLI,
        )
        counted: list[tuple[str, str, Durations, float]] = [
            ("bolide_turn_seconds", "Turns of the event loop.", stats.turns, MILLI),
            ("bolide_timer_late_seconds", "How late the loop's timer rang.", stats.late_timers, MILLI),
            ("bolide_sync_seconds", "Syncs of the commit log.", stats.syncs, MICRO),
            ("bolide_send_batch", "Sends that were answered at once.", stats.batches, 1),
            ("bolide_cold_read_seconds", "Waits for records that were not in memory.", stats.cold_reads, MILLI),
            ("bolide_table_write_seconds", "Writes of a table.", self._source.configs.writes, MILLI),
        ]
        for name, text, times, unit in counted:
            families.histogram(name, text, times.bounds, times.counts, times.total, unit=unit)

    def _replication(self, families: Families, now: int) -> None:
        replicas = self._source.parts.inspection.replicas
        for slave in replicas.connections(now):
            families.gauge(
                "bolide_replication_lag_bytes", "Bytes of the log that a slave lacks.", slave.diff, slave=slave.addr
            )
        families.gauge("bolide_slaves_in_sync", "Slaves that keep up.", replicas.in_sync(now))
        families.gauge("bolide_replicas_expelled", "Replicas that were absent too often.", replicas.expelled())
        families.gauge("bolide_disk_hangs", "1 while the log waits for its disk in vain.", int(replicas.disk_hangs()))
        role = self._source.parts.role
        if not role.may_write:
            lag = replicas.lag_ms(now)
            families.gauge(
                "bolide_replication_lag_seconds",
                "Time since this slave had all of its master's log, 0 while it has; -1 = never.",
                lag * MILLI if lag >= 0 else -1,
            )
            families.gauge(
                "bolide_replication_refused",
                "1 = this slave does not follow its master: replicationRefused of its runtime says why.",
                int(bool(replicas.refused())),
            )

    def _node(self, families: Families) -> None:
        source = self._source
        families.gauge(
            "rocketmq_broker_permission", "2 = write, 4 = read, 6 = both.", source.options.tables.broker_permission
        )
        families.gauge("rocketmq_topic_number", "Topics in the table.", len(source.parts.topics.table))
        families.gauge("rocketmq_consumer_group_number", "Groups in the table.", len(source.parts.groups.table))
        families.gauge("bolide_allocated_blocks", "Blocks of memory of objects.", self._machine.allocated_blocks)
        registration = source.registration
        if registration is not None:
            families.gauge("bolide_name_servers", "Name servers to register with.", registration.servers)
            families.gauge("bolide_name_servers_reached", "Those that know this broker.", registration.known_by)
        families.gauge("bolide_build_info", "Always 1.", 1, version=VERSION, role=source.parts.role.name)


def yes(fact: bool) -> str:
    """Return the value of a boolean label in RocketMQ's form."""
    return "true" if fact else "false"


def of_group(topic: str, group: str) -> dict[str, str]:
    """Return the labels of a group in a topic."""
    return {
        "topic": topic,
        "consumer_group": group,
        "is_retry": yes(topic.startswith((RETRY_PREFIX, DLQ_PREFIX))),
        "is_system": yes(is_internal_topic(topic) or is_system_group(group)),
    }
