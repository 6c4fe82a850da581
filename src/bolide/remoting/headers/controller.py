"""Requests from brokers and operators to a controller, and from a controller to brokers.

Fields and protocol names are from the Java header classes of the same names, release 5.5.0. A broker's heartbeat, code
904, uses `headers.namesrv.BrokerHeartbeatRequestHeader` with its optional fields. Broker ids are assigned by the
controller: they start at 1, and a master keeps its id.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header, Int32, Int64


class AlterSyncStateSetRequestHeader(Header, rename="camel"):
    """Request 1001 CONTROLLER_ALTER_SYNC_STATE_SET: a master changes the in-sync replicas. Body: `SyncStateSet`."""

    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    invoke_time: Int64 | None = None


class AlterSyncStateSetResponseHeader(Header, rename="camel"):
    """Response to 1001 CONTROLLER_ALTER_SYNC_STATE_SET. Body: `SyncStateSet`."""

    new_sync_state_set_epoch: Int32 | None = None


class ElectMasterRequestHeader(Header, rename="camel"):
    """Request 1002 CONTROLLER_ELECT_MASTER. `designate_elect`: elect this broker even if the old master is alive."""

    cluster_name: str
    broker_name: str
    broker_id: Int64
    designate_elect: bool
    invoke_time: Int64 | None = None


class ElectMasterResponseHeader(Header, rename="camel"):
    """Response to 1002 CONTROLLER_ELECT_MASTER. Body: `ElectMasterResponseBody`."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class RegisterBrokerToControllerRequestHeader(Header, rename="camel"):
    """Request 1003 CONTROLLER_REGISTER_BROKER."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Int64 | None = None
    broker_address: str | None = None
    invoke_time: Int64 | None = None


class RegisterBrokerToControllerResponseHeader(Header, rename="camel"):
    """Response to 1003 CONTROLLER_REGISTER_BROKER; it contains the master only while the master is alive. Body:
    `SyncStateSet`."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class GetReplicaInfoRequestHeader(Header, rename="camel"):
    """Request 1004 CONTROLLER_GET_REPLICA_INFO."""

    broker_name: str | None = None


class GetReplicaInfoResponseHeader(Header, rename="camel"):
    """Response to 1004 CONTROLLER_GET_REPLICA_INFO. Body: `SyncStateSet`."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class GetMetaDataResponseHeader(Header, rename="camel"):
    """Response to 1005 CONTROLLER_GET_METADATA_INFO. `peers` has the form `n0:ip:port;n1:ip:port`."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool | None = None
    peers: str | None = None


class NotifyBrokerRoleChangedRequestHeader(Header, rename="camel"):
    """Request 1008 NOTIFY_BROKER_ROLE_CHANGED, from the controller to a broker. Body: `SyncStateSet`."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None


class CleanControllerBrokerDataRequestHeader(Header, rename="camel"):
    """Request 1011 CLEAN_BROKER_DATA. `broker_controller_ids_to_clean` has the form `1;2`, or is None for the whole
    set."""

    broker_name: str
    cluster_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool | None = None
    invoke_time: Int64 | None = None


class GetNextBrokerIdRequestHeader(Header, rename="camel"):
    """Request 1012 CONTROLLER_GET_NEXT_BROKER_ID."""

    cluster_name: str | None = None
    broker_name: str | None = None


class GetNextBrokerIdResponseHeader(Header, rename="camel"):
    """Response to 1012 CONTROLLER_GET_NEXT_BROKER_ID."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


class ApplyBrokerIdRequestHeader(Header, rename="camel"):
    """Request 1013 CONTROLLER_APPLY_BROKER_ID. `register_check_code`: `address;ms`, which identifies the broker."""

    cluster_name: str | None = None
    broker_name: str | None = None
    applied_broker_id: Int64 | None = None
    register_check_code: str | None = None


class ApplyBrokerIdResponseHeader(Header, rename="camel"):
    """Response to 1013 CONTROLLER_APPLY_BROKER_ID."""

    cluster_name: str | None = None
    broker_name: str | None = None
