"""Changes the role of a running broker as its controller decides: master of an epoch, or slave of a master.

A master serves clients once its epoch is on disk, its whole log is dispatched, and every in-sync replica has it. A
slave rejects sends, fails pending ones, and truncates the bytes that its master lacks before it receives more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from bolide.broker.core.role import SLAVE, SYNC_MASTER
from bolide.broker.options.composed import BrokerOptions
from bolide.errors import BolideError
from bolide.layout.names import MASTER_ID
from bolide.node.machine.node_world import NodeWorld
from bolide.node.replication.auto_switch_ha_client import AutoSwitchHAClient, FollowedMaster
from bolide.node.replication.epoch_file import NAME
from bolide.node.replication.epoch_log import EpochLog
from bolide.node.replication.ha_client import LoopParts
from bolide.node.replication.nobody import Nobody
from bolide.node.replication.node_parts import NodeParts
from bolide.node.replication.side_state import SideState
from bolide.node.replication.slave_links import WRITE_HIGH, LinkHooks, SlaveLinks
from bolide.replication.absences import Absences
from bolide.replication.confirming import Confirming
from bolide.replication.held_by_set import HeldBySet
from bolide.replication.in_sync import InSync
from bolide.replication.pacing import Pace
from bolide.replication.settling import Settling
from bolide.replication.standing import Told
from bolide.replication.switch_frames import Hello
from bolide.replication.sync_set import SyncSet
from bolide.store.background.arrival import Arrival
from bolide.store.message_store import MessageStore
from bolide.store.raw_log import RawLog
from bolide.store.startup.recovery import RecoveryReport
from bolide.transport.raw_connection import RawConnection

POLL_S: Final = 0.01
HANGS: Final = "the disk of the store hangs: its log makes no progress; check the disk"
MOST_UNKNOWN: Final = 1000
CUTTING: Final = "this slave is truncating its log: retry"
REPLACED: Final = "this broker is no longer the master: the message may or may not be stored; send to the new master"
"""A replica may have the pending messages, and may be the new master."""


class Opening(NamedTuple):
    """A master that does not serve clients yet. `end`: end of its log when it assumed the role."""

    end: int
    epoch: int
    own_id: int


class Switching(SideState):
    """Replication of one broker in controller mode. Implements `node.loop.host_protocol.Replication`,
    `broker.core.replicas` and `node.replication.role_taker.RoleTaker`."""

    def __init__(
        self,
        options: BrokerOptions,
        world: NodeWorld,
        store: MessageStore,
        pace: Pace,
        parts: LoopParts,
        report: RecoveryReport,
        log_address: Callable[[str], Awaitable[str]],
        look_at_set: Callable[[], None],
    ) -> None:
        """`report`: how the last run ended. `log_address` queries the broker at an address for the address of its log,
        and returns "" without a response. `look_at_set` is called when the in-sync set may have to change.

        Raises `StoreDamaged`.
        """
        super().__init__()
        self._options = options
        self._world = world
        self._store = store
        self._raw = RawLog(store)
        self._pace = pace
        self._parts = parts
        self._certain = report.kept_all
        self.root = store.root
        path = options.controlled.store_path_epoch_file or f"{store.root}/{NAME}"
        self.epoch_log = EpochLog(world, path, self._raw)
        self._node: NodeParts | None = None
        self._slaves: SlaveLinks | None = None
        self._link: AutoSwitchHAClient | None = None
        self._confirming: Confirming | None = None
        self._opening: Opening | None = None
        self._nobody = Nobody()
        self._settling = Settling(options.controlled.unsettled_patience)
        self._begins = False
        """Whether this broker is becoming the master."""
        self._unknown: dict[tuple[str, int], None] = {}
        """Queues for which the master was already queried, because a message of an unknown topic or queue arrived."""
        self._look_at_set = look_at_set
        self._log_address = log_address
        # Startup dispatches the whole log, including records that may be truncated later.
        store.replicated_offset = min(store.dispatched_offset, store.maintenance.checkpoint.confirm_physical_offset)
        store.maintenance.confirmed = lambda: int(store.confirm_offset)
        self.held = HeldBySet(min(store.maintenance.checkpoint.held_offset, int(store.end_offset)))
        store.maintenance.held = lambda: self.held.offset

    def around(self, node: NodeParts) -> None:
        """Set the node that contains this replication."""
        self._node = node

    @property
    def node(self) -> NodeParts:
        """The node that contains this replication."""
        assert self._node is not None
        return self._node

    # -- roles

    async def lead(self, told: Told, own_id: int) -> None:
        """Become the master of an epoch. Raises `NotReplicated`, `FileFailed` and `BolideError`, without serving."""
        self._begins = True
        try:
            await self._lead(told, own_id)
            self.failed = ""
        except BolideError as error:
            self.failed = f"cannot become the master of epoch {told.epoch}: {error}"
            raise
        finally:
            self._begins = False

    async def _lead(self, told: Told, own_id: int) -> None:
        node, store, log = self.node, self._store, self._parts.log
        log.info("becoming the master of epoch %d", told.epoch)
        # Also between two epochs of this master: until the new one is open, no other broker confirms new records.
        await self.lose()
        self._raw.lead()
        store.replicated_offset = -1
        await self._until(lambda: self._all_kept() and store.dispatched_offset >= store.confirm_offset)
        # After a crash before or after this line, the log ends at the same offset and has no record of the new epoch.
        await self.epoch_log.lead(told.epoch, self._certain)
        self._refuse_hung()  # the controller may have elected another replica while the disk was hanging
        self._certain = True
        store.numbers.forget_all()
        store.log.last_store_timestamp = max(store.log.last_store_timestamp, store.reput.last_store_timestamp)
        now = self._parts.clock()
        if reset := node.set_progress_back(now):
            log.warning("reset %d committed offsets that were past the ends of their queues", reset)
        self._begin_slaves(told, own_id)
        node.names.master_is("")
        self._opening = Opening(int(self._raw.end), told.epoch, own_id)
        if not self._open():
            log.info("not serving clients until the log is replicated to %s", sorted(told.members))
            if node.role.broker_id == MASTER_ID:  # of the previous epoch: must not register as master until then
                node.role.become(SLAVE, own_id, now, fenced=True)
            self._parts.another_turn()

    def _open(self) -> bool:
        """Serve clients if every electable replica has the records that they may read. Return whether they are served.

        The log of a restarted master may end with records that no other replica has and no client has received.
        """
        confirming, opening = self._confirming, self._opening
        if confirming is None or opening is None:
            return False
        if confirming.waits and not confirming.sync_set.held_by_all(opening.end):
            return False
        self._opening = None
        now = self._parts.clock()
        self.node.role.become(SYNC_MASTER, opening.own_id, now)
        self.set_changed()
        self._announce(opening.epoch, now)
        self._parts.log.info(
            "this broker is the master of epoch %d, which starts at offset %d", opening.epoch, int(self._raw.end)
        )
        return True

    def _begin_slaves(self, told: Told, own_id: int) -> None:
        options, store, parts, pace = self._options, self._store, self._parts, self._pace
        epochs, end = self.epoch_log.epochs, int(store.end_offset)
        start = epochs.last.start if epochs.last is not None else end
        controlled, replication = options.controlled, options.replication
        patience = controlled.ha_max_time_slave_not_catchup
        sync_set = SyncSet(
            own_id, told.members, told.set_epoch, start, patience,
            Absences(
                replication.slave_timeout,
                controlled.absence_window,
                max(controlled.absence_window * controlled.absence_share // 100, patience),
                controlled.absence_probation,
            ),
            max(controlled.min_in_sync_replicas, replication.in_sync_replicas),
        )  # fmt: skip
        in_sync = InSync(
            needed=replication.in_sync_replicas,
            timeout=replication.slave_timeout,
            max_gap=replication.ha_max_gap_not_in_sync,
            end=end,
        )
        confirming = Confirming(
            sync_set, in_sync, own_id, options.controlled.all_ack_in_sync_state_set, epochs,
            lambda: int(store.confirm_offset), lambda keys: slaves.close(keys), self.epoch_log.sure_end,
        )  # fmt: skip
        file_size = int(store.shape.commit_log_segment_size)
        slaves = SlaveLinks(
            store, confirming, pace, parts.effects, parts.another_turn, parts.clock, parts.log,
            LinkHooks(lambda key, now: confirming.session(file_size, pace, key, now, options.set_name), self),
        )  # fmt: skip
        self._slaves, self._confirming = slaves, confirming

    async def follow(self, told: Told, own_id: int) -> None:
        """Become a slave of the master of an epoch."""
        node, store, options = self.node, self._store, self._options
        self._parts.log.info("becoming a slave of %s, the master of epoch %d", told.address, told.epoch)
        await self.lose()
        self.failed = ""
        hello = Hello(own_id, options.controlled.sync_from_last_file, options.controlled.async_learner, True, True)
        followed = FollowedMaster(
            told.epoch, lambda: self._log_address(told.address), hello, self.epoch_log, self.held,
            options.controlled.all_ack_in_sync_state_set, lambda: node.set_progress_back(self._parts.clock()),
            options.set_name,
        )  # fmt: skip
        self._link = link = AutoSwitchHAClient(
            store, self._pace, self._parts, followed, self.cut, lambda follows: self._following(told.address, follows),
            self,
        )  # fmt: skip
        link.start()
        now = self._parts.clock()
        node.role.become(SLAVE, own_id, now, fenced=True)
        node.names.master_is(told.address)
        self._announce(told.epoch, now)

    async def lose(self) -> None:
        """Stop serving until the next role. Fails pending requests, because another master may be elected."""
        node = self.node
        if node.role.may_write:
            self._parts.log.warning("the epoch of this master has ended")
            node.role.become(SLAVE, node.role.broker_id, self._parts.clock(), fenced=True)
            node.executor.refuse_parked(REPLACED)
        await self._leave()

    async def _leave(self) -> None:
        """Stop the work of the last role."""
        slaves, self._slaves, self._confirming, self._opening = self._slaves, None, None, None
        if slaves is not None:
            self._store.replicated_offset = min(self._store.confirm_offset, self._store.dispatched_offset)
            slaves.stop()
        elif self._store.replicated_offset < 0:  # it could not lead: the next master may lack what is not held
            self._store.replicated_offset = self.held.offset
        link, self._link = self._link, None
        if link is not None:
            await link.stop()
        await self.node.tables.stop()
        self.node.tables.master_is("")
        self._parts.another_turn()

    def _announce(self, epoch: int, now: int) -> None:
        node = self.node
        node.topics.of_epoch(epoch, now)
        node.names.register_now()
        self._parts.another_turn()

    def _following(self, address: str, follows: bool) -> None:
        """Called when this slave starts to replicate or rejects its master. A replicating slave serves reads and copies
        the master's tables. If it rejects the master, it is unknown which log is right, so it serves no clients."""
        role = self.node.role
        if not follows:
            if role.may_serve:
                role.become(SLAVE, role.broker_id, self._parts.clock(), fenced=True)
            return
        role.become(SLAVE, role.broker_id, self._parts.clock())
        self.node.tables.master_is(address)
        self.node.tables.start()

    # -- the log

    async def cut(self, end: int) -> None:
        """Truncate the log while no other work uses the store. Raises the errors of `store.cut`."""
        node, store = self.node, self._store
        await node.tables.stop()
        node.services.refuse_all(CUTTING)
        node.turns.ticking = False
        try:
            await self._until(lambda: self._all_kept() and not store.maintenance.busy)
            store.replicated_offset = min(store.replicated_offset, end)
            node.turns.still = True
            cutting = asyncio.ensure_future(self._world.in_thread(self._raw.cut, end, self._parts.clock()))
            while not cutting.done():  # a running thread cannot be cancelled
                await asyncio.wait([cutting])
            cutting.result()
            self.held.cut(end)
        finally:
            node.turns.still = False
            node.turns.ticking = True
            node.services.serve_as(node.role)
            self._parts.another_turn()

    def _all_kept(self) -> bool:
        log = self._store.log
        return log.end_offset == log.written_offset == log.flushed_offset

    async def _until(self, done: Callable[[], bool]) -> None:
        """Run event loop turns until `done` is true. Raises `BolideError` if the store has failed or the disk hangs."""
        while not done():
            if self._store.failure:
                raise BolideError(self._store.failure)
            self._refuse_hung()
            self._store.flush_soon()
            self._parts.another_turn()
            await asyncio.sleep(POLL_S)

    def _refuse_hung(self) -> None:
        """Raise `BolideError` while the disk hangs."""
        if self._settling.hung:
            raise BolideError(HANGS)

    # -- used by the membership

    def hung(self) -> bool:
        """Return whether the log, or a starting master, waits for a disk that hangs."""
        store, settled = self._store, int(self._raw.settled)
        waits = self._begins or settled < store.end_offset
        return self._settling.looked(waits=waits, progress=settled + int(store.dispatched_offset), now=self.now())

    @property
    def sync_set(self) -> SyncSet | None:
        """The in-sync set, or None if this broker is not the master."""
        return None if self._confirming is None else self._confirming.sync_set

    def now(self) -> int:
        """Return the time used to measure replication lag, ms."""
        return self._parts.clock()

    def set_changed(self) -> None:
        """Called when the in-sync set has changed: accept or reject sends, and raise the confirm offset."""
        sync_set, node = self.sync_set, self.node
        if sync_set is not None and self._confirming is not None:
            self._confirming.recount()
            short = len(sync_set.members) < self._options.controlled.min_in_sync_replicas
            if short != node.role.short:
                node.role.short = short
                node.services.serve_as(node.role)
        self._parts.another_turn()

    def disconnect(self, replicas: frozenset[int]) -> None:
        """Close the log connections of these replicas. Each has to report again before it can join the set."""
        if self._slaves is not None and self._confirming is not None:
            self._slaves.close(self._confirming.connections_of(replicas))

    def stands(self) -> tuple[int, int, int]:
        """Return the end of the safe log, the confirm offset, and the newest epoch (-1 if there is none)."""
        last = self.epoch_log.epochs.last
        return int(self._raw.settled), int(self._store.confirm_offset), -1 if last is None else last.number

    # -- handler of connections, and used by the event loop

    def owner(self) -> RawConnection:
        """Return the protocol of a new slave connection."""
        return RawConnection(self._slaves if self._slaves is not None else self._nobody, WRITE_HIGH)

    def master_told(self, ha_address: str) -> None:
        """Set the address at which the master serves its log, as returned by a name server."""
        if self._link is not None and ha_address:
            self._link.follow(ha_address)

    @property
    def side(self) -> SlaveLinks | AutoSwitchHAClient | None:
        """The connections of the current role, or None."""
        return self._slaves if self._slaves is not None else self._link

    def turn(self, now: int) -> None:
        """Called after the log was written, and possibly synced."""
        side = self.side
        if side is not None:
            side.turn(now)
        if self._confirming is not None:
            self.held.told(self._confirming.held)
            if self._confirming.sync_set.wanted(now) is not None:
                self._look_at_set()
        if self._opening is not None:
            # Not within this turn: a role changes only between turns.
            asyncio.get_running_loop().call_soon(self._open)

    def late(self, end: int) -> bool:
        """Return whether the record that ends at `end` is not on enough brokers."""
        side = self.side
        return side is not None and side.late(end)

    def due(self, now: int) -> int | None:
        """Return when to call `tick` next."""
        side = self.side
        return None if side is None else side.due(now)

    def tick(self, now: int, budget: int) -> None:
        """Send due heartbeats and disconnect idle slaves."""
        side = self.side
        if side is not None:
            side.tick(now, budget)

    def expelled(self) -> int:
        """Return the number of replicas that are temporarily excluded from the in-sync set."""
        return self.sync_set.expelled if self.sync_set is not None else 0

    def disk_hangs(self) -> bool:
        """Return whether the log waits for a disk that does not respond."""
        return self._settling.hung

    def arrived(self, arrivals: list[Arrival], now: int) -> None:
        """Fetch the master's tables soon, once per queue, when a message of an unknown topic or queue arrives."""
        if self._link is None:
            return
        table = self.node.topics.table
        for arrival in arrivals:
            topic = table.get(arrival.topic)
            if topic is not None and arrival.queue_id < topic.read_queue_nums:
                continue
            if (queue := (arrival.topic, arrival.queue_id)) not in self._unknown:
                if len(self._unknown) >= MOST_UNKNOWN:
                    self._unknown.clear()
                self._unknown[queue] = None
                self.node.tables.look_soon()

    async def stop(self) -> None:
        """Close every connection. The role does not change."""
        if self._slaves is not None:
            self._slaves.stop()
        if self._link is not None:
            await self._link.stop()
