"""Clusters, brokers and name servers: list them, and query and change their state and settings (mqadmin's clusterList,
brokerStatus, getBrokerConfig, updateBrokerConfig, wipeWritePerm)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated

from bolide.admin.calls import CONTROLLERS, AdminCalls, ext_of, masters_of
from bolide.admin.together import each
from bolide.client.messages.checked import FROM_ZERO, checked_methods
from bolide.client.messages.errors import NoQueue, ResponseError
from bolide.errors import BolideError, ConnectionLost
from bolide.layout.names import MASTER_ID
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer, encode_body
from bolide.remoting.bodies.controller import BrokerReplicasInfo
from bolide.remoting.bodies.replication import HARuntimeInfo
from bolide.remoting.bodies.stats import BrokerStatsData, KVTable
from bolide.remoting.headers.controller import ElectMasterResponseHeader, GetMetaDataResponseHeader
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.properties_text import read_properties_utf8, write_properties
from bolide.transport.address import split_addresses


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker process; `broker_id` 0 is the master. If it did not respond, `runtime` is empty and `error` contains
    the reason."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    runtime: Mapping[str, str]
    error: str = ""
    refused: bool = False
    """Whether the error is a response of the broker, for example to a wrong password, so that the broker is
    reachable."""

    @property
    def version(self) -> str:
        """The release that the broker reports, or ""."""
        return self.runtime.get("brokerVersionDesc", "")

    @property
    def role(self) -> str:
        """``ASYNC_MASTER``, ``SYNC_MASTER`` or ``SLAVE``; ``MASTER`` or ``SLAVE`` if the broker does not report it."""
        return self.runtime.get("brokerRole", "") or ("MASTER" if self.broker_id == MASTER_ID else "SLAVE")

    @property
    def state(self) -> str:
        """``serves``, ``follows`` (a slave), the reason why it accepts no messages (only Bolide's brokers report it),
        or the error of the query."""
        told = self.runtime.get("storeState", "") or ("serves" if self.broker_id == MASTER_ID else "follows")
        return self.error or told

    @property
    def serves(self) -> bool:
        """Whether the broker responds and, unless it is a slave, accepts messages."""
        return self.state in ("serves", "follows")


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """A slave as reported by its master, or a slave that rejects its master (`kept`).

    `lag` is in bytes. `lag_ms` is the lag in time, or None if the master does not report it, like RocketMQ's masters,
    or if the slave has not been caught up since it connected. If the master did not respond, `error` contains the
    reason, and `replica` is empty.
    """

    broker_name: str
    master: str
    log_end: int
    replica: str = ""
    lag: int = 0
    in_sync: bool = False
    bytes_per_second: int = 0
    error: str = ""
    lag_ms: int | None = None
    refused: bool = False
    """Whether the error is a response of the master, for example to a wrong password."""
    kept: str = ""
    """The reason why the slave rejects its master and does not
    truncate its log, and the command that resolves it, or ""."""


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A broker of a set under a controller, as reported by the controller. `epoch` is the master's epoch.

    `log_end` is the end offset of the broker's log while it is alive, and `confirmed` the end offset of the messages
    that the set has confirmed. Both are in bytes, and -1 if unknown, as with RocketMQ's controller.
    """

    broker_name: str
    broker_id: int
    address: str
    epoch: int
    master: bool
    in_sync: bool
    alive: bool
    log_end: int = -1
    confirmed: int = -1

    @property
    def role(self) -> str:
        """``MASTER`` or ``SLAVE``."""
        return "MASTER" if self.master else "SLAVE"


@checked_methods
class ClusterCalls(AdminCalls):
    """Calls on brokers and name servers."""

    async def brokers(self, *, runtime: bool = True) -> list[BrokerRow]:
        """Return every registered broker, with its statistics unless `runtime` is False. The row of a broker that is
        down contains an error."""
        info = await self.cluster_info()
        rows = [
            BrokerRow(cluster, name, broker_id, address, {})
            for cluster, names in sorted(info.cluster_addr_table.items())
            for name in sorted(names)
            if name in info.broker_addr_table
            for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items())
        ]
        if not runtime:
            return rows
        found = await each(range(len(rows)), lambda at: self._with_figures(rows[at]))
        return list(found.values())

    async def _with_figures(self, row: BrokerRow) -> BrokerRow:
        try:
            return replace(row, runtime=await self.broker_runtime(row.address))
        except BolideError as failure:
            return replace(row, error=str(failure), refused=isinstance(failure, ResponseError))

    async def replicas(self) -> list[ReplicaRow]:
        """Return the slaves connected to each master, then the slaves that reject their master. A 4.9 master cannot
        list its slaves, so its row contains an error."""
        info = await self.cluster_info()
        brokers = {
            (name, broker_id): address
            for name, data in sorted(info.broker_addr_table.items())
            for broker_id, address in sorted(data.broker_addrs.items())
        }
        masters = {name: address for (name, broker_id), address in brokers.items() if broker_id == MASTER_ID}
        slaves = [key for key in brokers if key[1] != MASTER_ID]
        led, figures = await asyncio.gather(
            each(masters, lambda name: self._replicas_of(name, masters[name])),
            each(slaves, lambda key: self._figures_if_reached(brokers[key])),
        )
        rows = [row for _, connected in led.values() for row in connected]
        for key in slaves:
            kept = figures[key].get("replicationRefused", "")
            if kept:
                name = key[0]
                end, _ = led.get(name, (0, []))
                lag = max(end - int(figures[key].get("commitLogMaxOffset", "0")), 0)
                rows.append(ReplicaRow(name, masters.get(name, ""), end, brokers[key], lag, kept=kept))
        if not masters and not rows:
            masters_of(info)  # raises
        return rows

    async def _replicas_of(self, name: str, master: str) -> tuple[int, list[ReplicaRow]]:
        """Return the end offset of a master's log (0 if it is unknown), and the slaves connected to it."""
        try:
            told = await self.decoded(HARuntimeInfo, master, codes.GET_BROKER_HA_STATUS)
        except BolideError as failure:
            return 0, [ReplicaRow(name, master, 0, error=str(failure), refused=isinstance(failure, ResponseError))]
        lags = await self._slave_lags(master) if told.ha_connection_info else {}
        end = told.master_commit_log_max_offset
        return end, [
            ReplicaRow(
                name, master, end, link.addr, link.diff, link.in_sync, link.transferred_byte_in_second,
                lag_ms=lags.get(link.addr),
            )
            for link in told.ha_connection_info
        ]  # fmt: skip

    async def _figures_if_reached(self, broker: str) -> Mapping[str, str]:
        """Return the runtime statistics of a broker, or an empty mapping if it is unreachable."""
        try:
            return await self.broker_runtime(broker)
        except BolideError:
            return {}

    async def _slave_lags(self, master: str) -> dict[str, int]:
        """Return the replication lag in ms by slave. Omits slaves whose lag the master does not report."""
        told = (await self.broker_runtime(master)).get("slaveLagMs", "")
        pairs = (entry.rpartition("=") for entry in told.split())
        return {slave: int(lag) for slave, _, lag in pairs if lag.isdecimal()}

    async def members(self, broker: str, controllers: Annotated[str, CONTROLLERS] = "") -> list[MemberRow]:
        """Return the brokers of a set, sorted by their ids at its controller.

        `controllers` is ``host:port;host:port``; the default is the controllerAddr of a broker of the set. Raises
        `NoQueue` if the set does not exist.
        """
        controller = await self._leading(broker, controllers)
        answer = await self.ask(controller, codes.CONTROLLER_GET_SYNC_STATE_DATA, None, encode_body([broker]))
        info = decode_answer(answer.body, BrokerReplicasInfo).replicas_info_table.get(broker)
        if info is None:
            raise NoQueue(f"the controller {controller} has no set {broker}: give its brokerName")
        rows = [
            MemberRow(
                broker, known.broker_id, known.broker_address, info.master_epoch,
                known.broker_id == info.master_broker_id, in_sync, known.alive,
                -1 if known.max_offset is None else known.max_offset,
                -1 if info.confirmed_offset is None else info.confirmed_offset,
            )
            for in_sync, replicas in ((True, info.in_sync_replicas), (False, info.not_in_sync_replicas))
            for known in replicas
        ]  # fmt: skip
        return sorted(rows, key=lambda row: row.broker_id)

    async def members_of_sets(self, broker: str = "", controllers: Annotated[str, CONTROLLERS] = "") -> list[MemberRow]:
        """Return the brokers of one set, or of all registered sets under a controller.

        Raises `NoQueue` if the set `broker` does not exist.
        """
        if broker:
            return await self.members(broker, controllers)
        rows: list[MemberRow] = []
        for name in sorted((await self.cluster_info()).broker_addr_table):
            with suppress(NoQueue):  # a set without a controller
                rows += await self.members(name, controllers)
        return rows

    async def switch_master(
        self, broker: str, to: Annotated[int, FROM_ZERO], controllers: Annotated[str, CONTROLLERS] = ""
    ) -> int:
        """Make the in-sync member `to` the master: a planned election. Return the new epoch.

        Raises `ResponseError` if the controller does not elect the member. The brokers change their roles soon
        afterwards.
        """
        controller = await self._leading(broker, controllers)
        info = await self.cluster_info()
        cluster = next((cluster for cluster, names in info.cluster_addr_table.items() if broker in names), "")
        ext = ext_of(clusterName=cluster, brokerName=broker, brokerId=to, designateElect=True)
        answer = await self.ask(controller, codes.CONTROLLER_ELECT_MASTER, ext)
        return decode_header(answer, ElectMasterResponseHeader).master_epoch or 0

    async def forget_member(
        self, broker: str, broker_id: Annotated[int, FROM_ZERO], controllers: Annotated[str, CONTROLLERS] = ""
    ) -> None:
        """Remove a stopped replica from the controllers. Raises `ResponseError` while it is alive."""
        controller = await self._leading(broker, controllers)
        ext = ext_of(brokerName=broker, brokerControllerIdsToClean=str(broker_id), isCleanLivingBroker=False)
        await self.ask(controller, codes.CLEAN_BROKER_DATA, ext)

    async def _leading(self, broker: str, controllers: str) -> str:
        """Return the address of the lead controller. Raises the last error if no controller responds."""
        addresses = split_addresses(controllers or await self._controllers_of(broker))
        failure: BolideError | None = None
        for address in addresses:
            try:
                answer = await self.ask(address, codes.CONTROLLER_GET_METADATA_INFO)
            except BolideError as error:
                failure = error
                continue
            leader = decode_header(answer, GetMetaDataResponseHeader).controller_leader_address
            if leader:
                return leader
        raise failure or ConnectionLost(f"none of the controllers {', '.join(addresses)} is the leader or names it")

    async def _controllers_of(self, broker: str) -> str:
        """Return the controllerAddr of the first broker of the set that responds."""
        data = (await self.cluster_info()).broker_addr_table.get(broker)
        addresses = sorted((data.broker_addrs if data is not None else {}).items())
        failure: BolideError | None = None
        for _, address in addresses:
            try:
                found = (await self.broker_config(address)).get("controllerAddr", "")
            except BolideError as error:
                failure = error
                continue
            if found:
                return found
        if failure is not None:
            raise failure
        raise NoQueue(f"no broker of {broker} has controllerAddr set: check that the set has a controller")

    async def _address(self, broker: str) -> str:
        """Return the address of a broker that is given by its address, or of the master if it is given by its name."""
        if ":" in broker:
            return broker
        return (await self.masters(broker=broker))[broker]

    async def broker_runtime(self, broker: str) -> dict[str, str]:
        """Return runtime statistics of a broker (name or address): counters, disk, queues."""
        return (await self.decoded(KVTable, await self._address(broker), codes.GET_BROKER_RUNTIME_INFO)).table

    async def broker_config(self, broker: str) -> dict[str, str]:
        """Return the current settings of a broker (name or address)."""
        return read_properties_utf8((await self.ask(await self._address(broker), codes.GET_BROKER_CONFIG)).body)

    async def update_broker_config(self, broker: str, settings: Mapping[str, str]) -> None:
        """Change settings of a running broker (name or address). Raises `ResponseError` if the broker rejects a
        setting."""
        await self.ask(await self._address(broker), codes.UPDATE_BROKER_CONFIG, None, write_properties(settings))

    async def namesrv_config(self) -> dict[str, dict[str, str]]:
        """Return the current settings of each name server, by address."""
        told = await self.tell_every_namesrv(codes.GET_NAMESRV_CONFIG)
        return {address: read_properties_utf8(answer.body) for address, answer in told.items()}

    async def update_namesrv_config(self, settings: Mapping[str, str]) -> None:
        """Change settings of every name server."""
        await self.tell_every_namesrv(codes.UPDATE_NAMESRV_CONFIG, None, write_properties(settings))

    async def broker_stats(self, broker: str, name: str, key: str) -> BrokerStatsData:
        """Return a counter of a broker, such as ``TOPIC_PUT_NUMS`` of a topic, by minute, hour and day."""
        return await self.decoded(
            BrokerStatsData,
            await self._address(broker),
            codes.VIEW_BROKER_STATS_DATA,
            ext_of(statsName=name, statsKey=key),
        )

    async def wipe_write_permission(self, broker_name: str) -> dict[str, int]:
        """Make producers avoid a broker before you stop it. Return the number of changed topics by name server."""
        return await self._permission(codes.WIPE_WRITE_PERM_OF_BROKER, broker_name, "wipeTopicCount")

    async def add_write_permission(self, broker_name: str) -> dict[str, int]:
        """Undo `wipe_write_permission`. Return the number of changed topics by name server."""
        return await self._permission(codes.ADD_WRITE_PERM_OF_BROKER, broker_name, "addTopicCount")

    async def _permission(self, code: int, broker_name: str, counted: str) -> dict[str, int]:
        told = await self.tell_every_namesrv(code, ext_of(brokerName=broker_name))
        return {address: int(answer.ext().get(counted, "0")) for address, answer in told.items()}

    async def master_addresses(self, cluster: str | None = None) -> list[str]:
        """Return the addresses of all masters, or only in `cluster`."""
        info = await self.cluster_info()
        names = info.cluster_addr_table.get(cluster, []) if cluster is not None else list(info.broker_addr_table)
        found = (info.broker_addr_table[name].broker_addrs.get(MASTER_ID) for name in names)
        return sorted(address for address in found if address is not None)
