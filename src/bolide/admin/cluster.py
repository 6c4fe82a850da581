"""Clusters, brokers and name servers: which exist, their state and settings (mqadmin's clusterList, brokerStatus,
getBrokerConfig, updateBrokerConfig, wipeWritePerm)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bolide.admin.calls import AdminCalls, ext_of
from bolide.errors import BolideError
from bolide.layout.names import MASTER_ID
from bolide.remoting import codes
from bolide.remoting.bodies.replication import HARuntimeInfo
from bolide.remoting.bodies.stats import BrokerStatsData, KVTable
from bolide.remoting.properties_text import read_properties_utf8, write_properties


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker process: `broker_id` 0 is the master. Without an answer `runtime` is empty and `error` says why."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    runtime: Mapping[str, str]
    error: str = ""

    @property
    def version(self) -> str:
        """The release it reports."""
        return self.runtime.get("brokerVersionDesc", "")

    @property
    def role(self) -> str:
        """``ASYNC_MASTER``, ``SYNC_MASTER`` or ``SLAVE``; of a broker that does not say ``MASTER`` or ``SLAVE``."""
        return self.runtime.get("brokerRole", "") or ("MASTER" if self.broker_id == MASTER_ID else "SLAVE")

    @property
    def state(self) -> str:
        """``serves``, ``follows`` (a slave), why it accepts no messages (only Bolide's brokers say), or why it did not
        answer."""
        told = self.runtime.get("storeState", "") or ("serves" if self.broker_id == MASTER_ID else "follows")
        return self.error or told

    @property
    def serves(self) -> bool:
        """True if it answers, and accepts messages unless it is a slave."""
        return self.state in ("serves", "follows")


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """A slave as its master sees it. `behind` is what it lacks, in bytes; without an answer of the master `error` says
    why, and there is no replica."""

    broker_name: str
    master: str
    log_end: int
    replica: str = ""
    behind: int = 0
    in_sync: bool = False
    bytes_per_second: int = 0
    error: str = ""


class ClusterCalls(AdminCalls):
    """Calls on brokers and name servers."""

    async def brokers(self, *, runtime: bool = True) -> list[BrokerRow]:
        """Every broker registered, with its figures unless `runtime` is off; one that is down has an error."""
        info = await self.cluster_info()
        rows = []
        for cluster, names in sorted(info.cluster_addr_table.items()):
            for name in sorted(names):
                data = info.broker_addr_table.get(name)
                for broker_id, address in sorted((data.broker_addrs if data is not None else {}).items()):
                    figures: Mapping[str, str] = {}
                    error = ""
                    if runtime:
                        try:
                            figures = await self.broker_runtime(address)
                        except BolideError as failure:
                            error = str(failure)
                    rows.append(BrokerRow(cluster, name, broker_id, address, figures, error))
        return rows

    async def replicas(self) -> list[ReplicaRow]:
        """The slaves that are connected to each master; a master of 4.9 tells nothing of them, which is an error."""
        rows = []
        for name, address in sorted((await self.masters()).items()):
            try:
                told = await self.decoded(HARuntimeInfo, address, codes.GET_BROKER_HA_STATUS)
            except BolideError as failure:
                rows.append(ReplicaRow(name, address, 0, error=str(failure)))
                continue
            end = told.master_commit_log_max_offset
            rows += [
                ReplicaRow(name, address, end, each.addr, each.diff, each.in_sync, each.transferred_byte_in_second)
                for each in told.ha_connection_info
            ]
        return rows

    async def _address(self, broker: str) -> str:
        """The address of a broker given by its name (then its master) or by its address."""
        if ":" in broker:
            return broker
        return (await self.masters(broker=broker))[broker]

    async def broker_runtime(self, broker: str) -> dict[str, str]:
        """Runtime figures of a broker (name or address): counters, disk, queues."""
        return (await self.decoded(KVTable, await self._address(broker), codes.GET_BROKER_RUNTIME_INFO)).table

    async def broker_config(self, broker: str) -> dict[str, str]:
        """The settings in force at a broker (name or address)."""
        return read_properties_utf8((await self.ask(await self._address(broker), codes.GET_BROKER_CONFIG)).body)

    async def update_broker_config(self, broker: str, settings: Mapping[str, str]) -> None:
        """Change settings of a running broker (name or address). Raises `ResponseError` if it refuses one."""
        await self.ask(await self._address(broker), codes.UPDATE_BROKER_CONFIG, None, write_properties(settings))

    async def namesrv_config(self) -> dict[str, dict[str, str]]:
        """The settings in force at each name server, by address."""
        return {
            address: read_properties_utf8((await self.ask(address, codes.GET_NAMESRV_CONFIG)).body)
            for address in self._options.namesrv
        }

    async def update_namesrv_config(self, settings: Mapping[str, str]) -> None:
        """Change settings of every name server."""
        for address in self._options.namesrv:
            await self.ask(address, codes.UPDATE_NAMESRV_CONFIG, None, write_properties(settings))

    async def broker_stats(self, broker: str, name: str, key: str) -> BrokerStatsData:
        """A counter of a broker, such as ``TOPIC_PUT_NUMS`` of a topic, by minute, hour and day."""
        return await self.decoded(
            BrokerStatsData,
            await self._address(broker),
            codes.VIEW_BROKER_STATS_DATA,
            ext_of(statsName=name, statsKey=key),
        )

    async def wipe_write_permission(self, broker_name: str) -> dict[str, int]:
        """Make producers avoid a broker, to take it out of service; returns the number of topics by name server."""
        return await self._permission(codes.WIPE_WRITE_PERM_OF_BROKER, broker_name, "wipeTopicCount")

    async def add_write_permission(self, broker_name: str) -> dict[str, int]:
        """Undo `wipe_write_permission`; returns the number of topics by name server."""
        return await self._permission(codes.ADD_WRITE_PERM_OF_BROKER, broker_name, "addTopicCount")

    async def _permission(self, code: int, broker_name: str, counted: str) -> dict[str, int]:
        changed = {}
        for address in self._options.namesrv:
            answer = await self.ask(address, code, ext_of(brokerName=broker_name))
            changed[address] = int(answer.ext().get(counted, "0"))
        return changed

    async def master_addresses(self, cluster: str | None = None) -> list[str]:
        """Addresses of all masters (of a cluster)."""
        info = await self.cluster_info()
        names = info.cluster_addr_table.get(cluster, []) if cluster is not None else list(info.broker_addr_table)
        found = (info.broker_addr_table[name].broker_addrs.get(MASTER_ID) for name in names)
        return sorted(address for address in found if address is not None)
