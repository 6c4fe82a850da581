"""Bodies that brokers, operators and a controller exchange about replica sets (release 5.5.0).

Broker ids are assigned by the controller. Sets of ids are written in ascending order.
"""

from __future__ import annotations

from msgspec import field

from bolide.remoting.bodies.base import Body, Int32, Int64
from bolide.remoting.bodies.route import BrokerMemberGroup


class SyncStateSet(Body):
    """The in-sync replicas, which have all acknowledged messages (SyncStateSet.java). The epoch grows with every
    change."""

    sync_state_set: list[Int64] = field(default_factory=list)
    sync_state_set_epoch: Int32 = 0


class ElectMasterResponseBody(Body):
    """Response to CONTROLLER_ELECT_MASTER (ElectMasterResponseBody.java): all replicas, and the in-sync replicas.

    The group is None if the master does not change.
    """

    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[Int64] = field(default_factory=list)


class ReplicaIdentity(Body):
    """One replica (BrokerReplicasInfo.ReplicaIdentity)."""

    broker_name: str = ""
    broker_id: Int64 = 0
    broker_address: str = ""
    alive: bool = False
    max_offset: Int64 | None = None
    """End offset of the log of a live replica. A field of Bolide's controller."""


class ReplicasInfo(Body):
    """The replicas of one broker name (BrokerReplicasInfo.ReplicasInfo). Without a master, `master_broker_id` and
    `master_address` are null."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 = 0
    sync_state_set_epoch: Int32 = 0
    in_sync_replicas: list[ReplicaIdentity] = field(default_factory=list)
    not_in_sync_replicas: list[ReplicaIdentity] = field(default_factory=list)
    confirmed_offset: Int64 | None = None
    """Log offset up to which the set has confirmed messages, if known. A field of Bolide's controller."""


class BrokerReplicasInfo(Body):
    """Response to CONTROLLER_GET_SYNC_STATE_DATA, by broker name (BrokerReplicasInfo.java)."""

    replicas_info_table: dict[str, ReplicasInfo] = field(default_factory=dict)


class EpochEntry(Body):
    """The part of the log, from `start_offset` to `end_offset`, that was written in one epoch. The last entry has no
    end yet."""

    epoch: Int32 = 0
    start_offset: Int64 = 0
    end_offset: Int64 = 2**63 - 1


class EpochEntryCache(Body):
    """A broker's response to GET_BROKER_EPOCH_CACHE (EpochEntryCache.java)."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Int64 = 0
    epoch_list: list[EpochEntry] = field(default_factory=list)
    max_offset: Int64 = 0
