"""Settings of a broker that has slaves, or is one."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from bolide.declaration import OURS, DeclaredOptions, Port, PositiveBytes, PositiveMs, Section

REPLICATION: Final = Section("Replication")


class ReplicationOptions(DeclaredOptions, frozen=True, kw_only=True):
    """How a master sends its log to slaves, with and without a controller."""

    ha_listen_port: Annotated[
        Port,
        REPLICATION(
            "Port on which a master serves slaves; 0: listenPort + 1. It is on bindAddress; where that is 0.0.0.0 and "
            "haTlsEnable is off, on brokerIP2, or without one on the address that clients are told. A SYNC_MASTER and "
            "a broker under a controller always listen, an ASYNC_MASTER where this is set: anyone who reaches it gets "
            "the whole log.",
            java="10912",
        ),
    ] = 0
    ha_master_address: Annotated[
        str,
        REPLICATION("`host:port` where a slave finds its master's log; empty: the name servers tell."),
    ] = ""
    in_sync_replicas: Annotated[
        int,
        Meta(ge=1, le=16),
        REPLICATION(
            "Machines, the master among them, that must hold a record before its send is answered. More than 1 needs "
            "brokerRole = SYNC_MASTER or a controller."
        ),
    ] = 1
    slave_timeout: Annotated[
        PositiveMs,
        REPLICATION(
            "Time a send waits for slaves; then it is answered with FLUSH_SLAVE_TIMEOUT. In plain mode it is delivered "
            "then, under a controller once the replicas in sync have it."
        ),
    ] = 3000
    ha_max_gap_not_in_sync: Annotated[
        PositiveBytes, REPLICATION("A slave that lacks this many bytes does not count as in sync.")
    ] = 256 * 1024 * 1024
    ha_tls_enable: Annotated[
        bool,
        REPLICATION(
            "Slaves follow by TLS: a master shows tlsCertPath, and takes who shows a certificate that tlsTrustCertPath "
            "signed; a slave shows tlsClientCertPath, and follows who shows one that tlsClientTrustCertPath signed.",
            java=OURS,
        ),
    ] = False
    ha_send_heartbeat_interval: Annotated[
        PositiveMs, REPLICATION("Time after which master and slave say where they stand when nothing is new.")
    ] = 5000
    ha_housekeeping_interval: Annotated[
        PositiveMs, REPLICATION("A master or slave that is silent for so long is disconnected.")
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
        REPLICATION("Bytes of the log sent to one slave in a second. In plain mode RocketMQ counts headers only."),
    ] = 100 * 1024 * 1024
