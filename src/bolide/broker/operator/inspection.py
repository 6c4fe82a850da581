"""Queries about a running broker: runtime info (28), queue units (321), files (27, 329), replication (907).

Keys and units of runtime info: docs/protocol/remoting.md 12, as mqadmin's clusterList and brokerStatus read them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.replicas import NoReplicas, Replicas
from bolide.broker.core.service import Routes, Service
from bolide.broker.core.stats import BrokerStats
from bolide.broker.core.waiting import NothingWaits, WhatWaits
from bolide.broker.delay.delay_levels import DelayService
from bolide.broker.delay.timers import TimerService
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.clients import Clients
from bolide.broker.tables.filters import ConsumerFilters
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.bodies.query import ConsumeQueueData, QueryConsumeQueueResponseBody
from bolide.remoting.bodies.stats import KVTable
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.query import QueryConsumeQueueRequestHeader
from bolide.remoting.request_access import GET_CONSUME_QUEUE, SIGNED_GET, SIGNED_UPDATE
from bolide.remoting.request_routes import DiskReads, Kind, RawRoute, Route
from bolide.remoting.store_position import StorePosition, asks_for_position
from bolide.store.message_store import MessageStore

MAX_UNITS: Final = 1_000
POOLS: Final[dict[str, tuple[frozenset[int], int]]] = {
    "send": (
        frozenset({codes.SEND_MESSAGE, codes.SEND_MESSAGE_V2, codes.SEND_BATCH_MESSAGE, codes.CONSUMER_SEND_MSG_BACK}),
        10_000,
    ),
    "pull": (frozenset({codes.PULL_MESSAGE}), 100_000),
    "litePull": (frozenset({codes.LITE_PULL_MESSAGE}), 100_000),
    "query": (frozenset({codes.QUERY_MESSAGE, codes.VIEW_MESSAGE_BY_ID}), 20_000),
    "ack": (frozenset(), 100_000),
    "EndTransaction": (frozenset({codes.END_TRANSACTION}), 100_000),
}
"""Java's thread pools, with their request codes and queue capacities. Here one loop serves all requests."""


class MachineUse(Struct, frozen=True):
    """Resource use of the broker's process and its store."""

    disk_bytes: int
    """Size of the disk that holds the store."""
    disk_free: int
    allocated_blocks: int
    """Blocks of memory that Python objects occupy."""
    certificate_end: int = 0
    """First expiry of the broker's TLS certificates in ms since 1970, or 0 without TLS."""


class InspectedNode(Struct, frozen=True):
    """Functions of the node around the services."""

    machine: Callable[[], MachineUse]
    """Returns the resource use of process and store."""
    save_tables: Callable[[], None]
    """Persists the tables that are otherwise written every few seconds."""


class InspectService(Service):
    """Serves queries about this broker."""

    def __init__(
        self,
        options: BrokerOptions,
        store: MessageStore,
        stats: BrokerStats,
        delay: DelayService,
        timers: TimerService,
        clients: Clients,
        filters: ConsumerFilters,
        node: InspectedNode,
    ) -> None:
        self._machine = node.machine
        self._save_tables = node.save_tables
        self._options = options
        self._store = store
        self._stats = stats
        self._delay = delay
        self._timers = timers
        self._clients = clients
        self._filters = filters
        self._role = delay.role
        self.replicas: Replicas = NoReplicas()
        """State of replication, once it has started."""
        self.waiting: WhatWaits = NothingWaits()
        """Pending work of the loop, once it has started."""
        self.more: list[Callable[[], dict[str, str]]] = []
        """Return values of other services, as text by key."""

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._options = options

    def routes(self) -> Routes:
        return [
            RawRoute(
                codes.GET_BROKER_RUNTIME_INFO,
                None,
                self.on_runtime_info,
                Kind.READ,
                reads=DiskReads.STEPWISE,
                access=SIGNED_GET,
            ),
            Route(
                codes.QUERY_CONSUME_QUEUE,
                QueryConsumeQueueRequestHeader,
                self.on_consume_queue,
                Kind.READ,
                reads=DiskReads.MANY,
                access=GET_CONSUME_QUEUE,
            ),
            RawRoute(codes.GET_BROKER_HA_STATUS, None, self.on_ha_status, Kind.READ, access=SIGNED_GET),
            RawRoute(codes.TRIGGER_DELETE_FILES, None, self.on_delete_files, Kind.CHANGE, access=SIGNED_UPDATE),
            RawRoute(codes.DELETE_EXPIRED_COMMITLOG, None, self.on_delete_files, Kind.CHANGE, access=SIGNED_UPDATE),
            RawRoute(codes.CLEAN_EXPIRED_CONSUMEQUEUE, None, self.on_clean_queues, Kind.CHANGE, access=SIGNED_UPDATE),
        ]

    def on_runtime_info(self, channel: Channel, command: Command, now: int) -> Outcome:
        info = self.runtime_info(now)
        if asks_for_position(command):
            info |= self._position().table()
            # Last, because reads of the disk repeat the request until here.
            self._store.flush_soon()
            self._save_tables()
        return reply(make_response(command, codes.SUCCESS, body=encode_body(KVTable(info))))

    def _position(self) -> StorePosition:
        store = self._store
        return StorePosition(
            store.root,
            store.maintenance.run_id,
            store.maintenance.sealed.cuts,
            int(store.min_physical_offset()),
            int(store.written_offset),
            int(store.flushed_offset),
        )

    def runtime_info(self, now: int) -> dict[str, str]:
        """Return every value as text, under Java's keys. Keys of the loop and the process are extensions of Bolide."""
        return {
            **self._of_broker(now),
            **self._of_traffic(now),
            **self._of_store(now),
            **self._of_waiting(now),
            **self._of_delays(now),
            **self._of_loop(),
            **{key: text for more in self.more for key, text in more().items()},
        }

    def _of_broker(self, now: int) -> dict[str, str]:
        return {
            "brokerVersion": str(codes.VERSION_5_5_0),
            "brokerVersionDesc": "V5_5_0",
            "brokerActive": "true" if self._role.may_deliver or self._role.acting else "false",
            "brokerRole": self._role.name,
            "replicationRefused": self.replicas.refused(),
            "replicationLagMs": str(self.replicas.lag_ms(now)),
            "slaveLagMs": " ".join(f"{slave}={lag}" for slave, lag in self.replicas.lags(now).items()),
            "storeState": self._state(),
            "bootTimestamp": str(self._stats.boot_timestamp),
            "runtime": _runtime(now - self._stats.boot_timestamp),
            "startAcceptSendRequestTimeStamp": str(self._options.send.start_accept_send_request_time_stamp),
        }

    def _of_traffic(self, now: int) -> dict[str, str]:
        stats = self._stats
        found, missed = stats.rates(lambda sample: sample.found, now), stats.rates(lambda sample: sample.missed, now)
        transferred = _rates(stats.rates(lambda sample: sample.transferred, now))
        return {
            "putTps": _rates(stats.rates(lambda sample: sample.put, now)),
            "getTransferredTps": transferred,
            "getTransferedTps": transferred,
            "getFoundTps": _rates(found),
            "getMissTps": _rates(missed),
            "getTotalTps": _rates([one + other for one, other in zip(found, missed, strict=True)]),
            "msgPutTotalYesterdayMorning": str(stats.put_yesterday),
            "msgPutTotalTodayMorning": str(stats.put_morning),
            "msgPutTotalTodayNow": str(stats.put_messages),
            "msgGetTotalYesterdayMorning": str(stats.got_yesterday),
            "msgGetTotalTodayMorning": str(stats.got_morning),
            "msgGetTotalTodayNow": str(stats.got_messages),
            "putMessageFailedTimes": str(stats.put_failed),
            "putMessageTimesTotal": str(stats.put_messages),
            "putMessageAverageSize": str(stats.put_bytes / stats.put_messages if stats.put_messages else 0.0),
            "putMessageSizeTotal": str(stats.put_bytes),
            "putMessageDistributeTime": stats.put_times.text(),
            "putMessageEntireTimeMax": str(stats.put_times.longest),
            "putLatency99": f"{stats.put_times.percentile(0.99):.2f}",
            "putLatency999": f"{stats.put_times.percentile(0.999):.2f}",
            "getMessageEntireTimeMax": str(stats.cold_reads.longest),
        }

    def _of_store(self, now: int) -> dict[str, str]:
        store, machine = self._store, self._machine()
        disk = _percent(store.disk_ratio())
        ends = {"certificateEndTimestamp": str(machine.certificate_end)} if machine.certificate_end else {}
        return {
            **ends,
            "commitLogMinOffset": str(store.min_physical_offset()),
            "commitLogMaxOffset": str(store.end_offset),
            "dispatchMaxBuffer": "0",
            "dispatchBehindBytes": str(max(store.confirm_offset - store.dispatched_offset, 0)),
            "earliestMessageTimeStamp": str(store.earliest_store_time("", -1)),
            "pageCacheLockTimeMills": str(self.waiting.oldest_send(now)),
            "remainHowManyDataToFlush": byte_count(max(int(store.written_offset - store.flushed_offset), 0)),
            "remainTransientStoreBufferNumbs": str((1 << 31) - 1),
            "commitLogDiskRatio": disk,
            f"commitLogDiskRatio_{store.root}/commitlog": disk,
            "consumeQueueDiskRatio": disk,
            "commitLogDirCapacity": (
                f"Total : {byte_count(machine.disk_bytes)}, Free : {byte_count(machine.disk_free)}."
            ),
            "processAllocatedBlocks": str(machine.allocated_blocks),
        }

    def _of_waiting(self, now: int) -> dict[str, str]:
        """Return the requests that wait for a turn, under the names of Java's pools. The queue of acknowledgements is
        empty, because POP is not supported."""
        told: dict[str, str] = {}
        for name, (asked, capacity) in POOLS.items():
            count, first = self.waiting.for_turn(asked)
            told[f"{name}ThreadPoolQueueCapacity"] = str(capacity)
            if name == "EndTransaction":
                told["EndTransactionQueueSize"] = str(count)
            else:
                told[f"{name}ThreadPoolQueueSize"] = str(count)
                told[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = str(max(now - first, 0) if count else 0)
        return told

    def _of_delays(self, now: int) -> dict[str, str]:
        late, behind, waiting = self._timers.behind(now)
        enqueued, dequeued = self._timers.metrics.rates(now)
        told = {
            "timerReadBehind": str(late // 1000),
            "timerOffsetBehind": str(behind),
            "timerCongestNum": str(waiting),
            "timerEnqueueTps": f"{enqueued:.1f}",
            "timerDequeueTps": f"{dequeued:.1f}",
        }
        for level, (offset, end) in self._delay.behind().items():
            told[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
        return told

    def _of_loop(self) -> dict[str, str]:
        stats = self._stats
        return {
            "loopTurnDistributeTime": stats.turns.text(),
            "loopTurnTimeMax": str(stats.turns.longest),
            "loopTimerLateDistributeTime": stats.late_timers.text(),
            "loopTimerLateTimeMax": str(stats.late_timers.longest),
        }

    def _state(self) -> str:
        """Return `serves`, `follows` on a slave, or why the store rejects messages."""
        store = self._store
        if not store.writable():
            return f"refuses: {store.failure or store.flags.describe()}"
        return "serves" if self._role.may_write else "follows"

    def on_consume_queue(
        self, channel: Channel, command: Command, header: QueryConsumeQueueRequestHeader, now: int
    ) -> Outcome:
        topic, queue_id = header.topic or "", header.queue_id or 0
        first, count = header.index or 0, max(min(header.count or 0, MAX_UNITS), 0)
        body = QueryConsumeQueueResponseBody(
            max_queue_index=self._store.max_queue_offset(topic, queue_id),
            min_queue_index=self._store.min_queue_offset(topic, queue_id),
        )
        if header.consumer_group:
            self._tell_group(header.consumer_group, topic, body)
        for physical_offset, size, code in self._store.units(topic, queue_id, first, count):
            body.queue_data.append(ConsumeQueueData(physical_offset, size, code))
        if not body.min_queue_index <= first < body.max_queue_index:
            remark = f"Index {first} of {queue_id}@{topic} is not exist!"
            return reply(make_response(command, codes.SUCCESS, remark))
        return reply(make_response(command, codes.SUCCESS, body=encode_body(body)))

    def _tell_group(self, group: str, topic: str, body: QueryConsumeQueueResponseBody) -> None:
        """Add the subscription of a group, and its filter expression if it has one."""
        body.subscription_data = self._clients.subscription(group, topic)
        if body.subscription_data is None:
            body.filter_data = f"{group}@{topic} is not online!"
            return
        data = self._filters.get(topic, group)
        body.filter_data = "null" if data is None else encode_body(self._filters.entry(data)).decode()

    def on_ha_status(self, channel: Channel, command: Command, now: int) -> Outcome:
        """Respond as 5.x does: a master returns its slaves, a slave the connection to its master."""
        master = self._role.may_write
        link = self.replicas.link(now)
        client: dict[str, object] = {
            "lastReadTimestamp": link.last_read_timestamp,
            "lastWriteTimestamp": link.last_write_timestamp,
            "masterFlushOffset": link.master_flush_offset,
            "maxOffset": link.max_offset,
            "transferredByteInSecond": link.transferred_byte_in_second,
        }
        if link.master_addr:
            client["masterAddr"] = link.master_addr
        body = {
            "haClientRuntimeInfo": dict(sorted(client.items())),
            "haConnectionInfo": self.replicas.connections(now) if master else [],
            "inSyncSlaveNums": self.replicas.in_sync(now) if master else 0,
            "master": master,
            "masterCommitLogMaxOffset": int(self._store.end_offset) if master else 0,
        }
        return reply(make_response(command, codes.SUCCESS, body=encode_body(body)))

    def on_delete_files(self, channel: Channel, command: Command, now: int) -> Outcome:
        self._store.delete_expired(now)
        return reply(make_response(command, codes.SUCCESS))

    def on_clean_queues(self, channel: Channel, command: Command, now: int) -> Outcome:
        """Delete expired queue files. This normally happens automatically; after a failure it retries and returns the
        reason."""
        problem = self._store.maintenance.clean_derived()
        if problem:
            return reply(make_response(command, codes.SYSTEM_ERROR, problem))
        return reply(make_response(command, codes.SUCCESS))


def byte_count(size: int) -> str:
    """Format bytes like MixAll.humanReadableByteCount: 1.5 KiB."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, 6)
    return f"{size / (1 << 10 * power):.1f} {'KMGTPE'[power - 1]}iB"


def _rates(of_windows: list[float]) -> str:
    """Format rates for Java's three windows: 10 seconds, one minute, ten minutes."""
    return " ".join(f"{rate:.2f}" for rate in of_windows)


def _percent(ratio: float) -> str:
    """Format a disk ratio like Java: in full percent, rounded up."""
    return f"{math.ceil(ratio * 100) / 100:.2f}"


def _runtime(elapsed_ms: int) -> str:
    seconds = elapsed_ms // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"
