"""Settings of sets in which a slave acts as master while there is no master."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from bolide.declaration import DeclaredOptions, PositiveMs, Section

ACTING: Final = Section("Acting masters")


class ActingOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Slaves that act as master, and the sets that allow it."""

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
            "Number of brokers of the set. With more than 1, a master registers once each running slave replicates "
            "from it, or has had time to, and it has their consumer offsets; a slave registers once it replicates "
            "from the running master."
        ),
    ] = 1
    skip_pre_online: Annotated[bool, ACTING("Register immediately, whatever totalReplicas is.")] = False
    broker_not_active_timeout_millis: Annotated[
        PositiveMs, ACTING("Time without a heartbeat after which name servers remove this broker.")
    ] = 10_000
    sync_broker_member_group_period: Annotated[
        PositiveMs, ACTING("Interval of queries to a name server for the members of the set.")
    ] = 1000
    compatible_with_old_name_srv: Annotated[
        bool, ACTING("Use requests that name servers of RocketMQ 4.9 also support (322 and 105, not 904 and 901).")
    ] = True
    enable_auto_in_sync_replicas: Annotated[
        bool,
        ACTING(
            "A send waits for the brokers in sync: at most inSyncReplicas, at least minInSyncReplicas. Needs "
            "enableSlaveActingMaster."
        ),
    ] = False
    enable_remote_escape: Annotated[
        bool,
        ACTING(
            "A slave that acts as master sends due delayed messages, due timers and pending half messages to other "
            "sets of the cluster. Needs enableSlaveActingMaster; set it at all brokers of the set."
        ),
    ] = False
