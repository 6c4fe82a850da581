"""The replication state that a broker reports (HARuntimeInfo.java)."""

from __future__ import annotations

from msgspec import field

from bolide.remoting.bodies.base import Body, Int32, Int64


class HAConnectionRuntimeInfo(Body):
    """One slave of a master. `diff` is the lag in bytes, `transferred_byte_in_second` the rate in bytes per second."""

    addr: str = ""
    slave_ack_offset: Int64 = 0
    diff: Int64 = 0
    in_sync: bool = False
    transferred_byte_in_second: Int64 = 0
    transfer_from_where: Int64 = 0


class HAClientRuntimeInfo(Body):
    """The link of a slave to its master. Timestamps are in ms."""

    master_addr: str = ""
    transferred_byte_in_second: Int64 = 0
    max_offset: Int64 = 0
    last_read_timestamp: Int64 = 0
    last_write_timestamp: Int64 = 0
    master_flush_offset: Int64 = 0
    is_activated: bool = False


class HARuntimeInfo(Body):
    """Response to GET_BROKER_HA_STATUS."""

    master: bool = False
    master_commit_log_max_offset: Int64 = 0
    in_sync_slave_nums: Int32 = 0
    ha_connection_info: list[HAConnectionRuntimeInfo] = field(default_factory=list)
    ha_client_runtime_info: HAClientRuntimeInfo = field(default_factory=HAClientRuntimeInfo)
