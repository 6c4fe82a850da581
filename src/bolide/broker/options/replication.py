"""Settings of a broker that has slaves, or is one."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from bolide.declaration import OURS, DeclaredOptions, Port, PositiveBytes, PositiveMs, Section

REPLICATION: Final = Section("Replication")


class ReplicationOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Replication of the log, with and without a controller."""

    ha_listen_port: Annotated[
        Port,
        REPLICATION(
            "Port on which a master serves slaves; 0: listenPort + 1. It is on bindAddress; if that is 0.0.0.0 and "
            "haTlsEnable is off, on brokerIP2, or without one on the address that clients use. A SYNC_MASTER and a "
            "broker under a controller always listen, an ASYNC_MASTER only if this is set: every client that reaches "
            "the port receives the whole log.",
            java="10912",
        ),
    ] = 0
    ha_master_address: Annotated[
        str,
        REPLICATION("`host:port` of the master's log for a slave; empty: from the name servers."),
    ] = ""
    in_sync_replicas: Annotated[
        int,
        Meta(ge=1, le=16),
        REPLICATION(
            "Number of brokers, including the master, that must store a record before its send is acknowledged. More "
            "than 1 needs brokerRole = SYNC_MASTER or a controller."
        ),
    ] = 1
    slave_timeout: Annotated[
        PositiveMs,
        REPLICATION(
            "Maximum time a send waits for slaves. After it, the response is FLUSH_SLAVE_TIMEOUT. Without a "
            "controller the message is delivered then, with one as soon as the in-sync replicas have it."
        ),
    ] = 3000
    ha_max_gap_not_in_sync: Annotated[PositiveBytes, REPLICATION("Lag in bytes from which a slave is not in sync.")] = (
        256 * 1024 * 1024
    )
    ha_tls_enable: Annotated[
        bool,
        REPLICATION(
            "Use TLS between master and slave: a master presents tlsCertPath and requires a certificate signed by "
            "tlsTrustCertPath; a slave presents tlsClientCertPath and requires one signed by tlsClientTrustCertPath.",
            java=OURS,
        ),
    ] = False
    ha_send_heartbeat_interval: Annotated[
        PositiveMs, REPLICATION("Interval of heartbeats between master and slave while no data is sent.")
    ] = 5000
    ha_housekeeping_interval: Annotated[
        PositiveMs, REPLICATION("Idle time after which a replication connection is closed.")
    ] = 20_000
    ha_transfer_batch_size: Annotated[
        int,
        Meta(ge=1, le=4 * 1024 * 1024 - 36, extra={"unit": "bytes"}),
        # With its header, 36 bytes under a controller, a transfer must fit into the 4 MiB in which RocketMQ reads it.
        REPLICATION("Bytes of the log in one transfer to a slave."),
    ] = 32 * 1024
    ha_flow_control_enable: Annotated[bool, REPLICATION("Obey maxHaTransferByteInSecond.")] = False
    max_ha_transfer_byte_in_second: Annotated[
        PositiveBytes,
        REPLICATION(
            "Maximum rate of the log sent to one slave, in bytes per second. In default HA mode RocketMQ counts "
            "headers only."
        ),
    ] = 100 * 1024 * 1024
