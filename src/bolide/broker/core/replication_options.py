"""Settings of a broker that has slaves, or is one."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from bolide.broker.core.controlled_options import ControlledOptions
from bolide.declaration import OURS, Port, PositiveBytes, PositiveMs, Section, java_key
from bolide.errors import ConfigError

REPLICATION: Final = Section("Replication")
ACTING: Final = Section("Acting masters")


class ReplicationOptions(ControlledOptions, frozen=True, kw_only=True, rename=java_key):
    """Of plain mode; what replicates goes by the first of them under a controller, too."""

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

    enable_slave_acting_master: Annotated[
        bool,
        ACTING(
            "While a set has no master, name servers with supportActingMaster show its slave with the smallest "
            "brokerId as the master: consumers read there. Set it at all brokers of the set."
        ),
    ] = False
    total_replicas: Annotated[
        int,
        Meta(ge=1, le=16),
        ACTING(
            "Brokers of the set. With more than 1 a master registers once each slave that runs follows it, or had time "
            "to, and has their offsets of consumers; a slave once it follows the master that runs."
        ),
    ] = 1
    skip_pre_online: Annotated[bool, ACTING("Register at once, whatever totalReplicas is.")] = False
    broker_not_active_timeout_millis: Annotated[
        PositiveMs, ACTING("Time without a sign of life after which name servers take this broker for dead.")
    ] = 10_000
    sync_broker_member_group_period: Annotated[
        PositiveMs, ACTING("Time between questions to a name server who is in the set.")
    ] = 1000
    compatible_with_old_name_srv: Annotated[
        bool, ACTING("Use requests that name servers of RocketMQ 4.9 have, too (322 and 105, not 904 and 901).")
    ] = True
    enable_auto_in_sync_replicas: Annotated[
        bool,
        ACTING(
            "A send waits for no more machines than are in sync, and for minInSyncReplicas at least. Needs "
            "enableSlaveActingMaster."
        ),
    ] = False

    enable_remote_escape: Annotated[
        bool,
        ACTING(
            "A slave that acts as master delivers delayed messages and timers, and hands half messages over: it sends "
            "them to other sets of the cluster. Needs enableSlaveActingMaster; set it at all brokers of the set."
        ),
    ] = False

    def check_acting(self, namesrv_addr: str) -> None:
        """Raise `ConfigError` for settings of acting masters that do not fit together."""
        if self.enable_auto_in_sync_replicas and not self.enable_slave_acting_master:
            raise ConfigError(
                "enableAutoInSyncReplicas = true needs enableSlaveActingMaster = true: else nobody counts who lives"
            )
        if self.enable_remote_escape and not self.enable_slave_acting_master:
            raise ConfigError(
                "enableRemoteEscape = true needs enableSlaveActingMaster = true: else no slave delivers for its master"
            )
        if not self.enable_slave_acting_master:
            return
        if self.enable_controller_mode:
            raise ConfigError(
                "enableSlaveActingMaster = true is not allowed with enableControllerMode = true: the controller elects "
                "a master; leave one of them out"
            )
        if not namesrv_addr:
            raise ConfigError("enableSlaveActingMaster = true needs namesrvAddr: name servers know who is in the set")
