"""Settings of a broker in controller mode."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from bolide.declaration import OURS, DeclaredOptions, PositiveMs, Section

CONTROLLED: Final = Section("Under a controller")


class ControlledOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Most settings have an effect only with `enable_controller_mode`."""

    enable_controller_mode: Annotated[
        bool,
        CONTROLLED(
            "Controller mode: a controller elects the master among the brokers of one name, and assigns brokerRole "
            "and brokerId."
        ),
    ] = False
    controller_addr: Annotated[str, CONTROLLED("Controllers, `host:port;host:port`.")] = ""
    all_ack_in_sync_state_set: Annotated[
        bool,
        CONTROLLED("A send waits until every replica in sync holds it. With inSyncReplicas above 1 it always does."),
    ] = False
    min_in_sync_replicas: Annotated[
        int,
        Meta(ge=1, le=16),
        CONTROLLED("Number of in-sync replicas, including the master, below which sends are rejected."),
    ] = 1
    broker_heartbeat_interval: Annotated[
        PositiveMs,
        CONTROLLED("Interval of heartbeats to controllers, or with enableSlaveActingMaster to name servers."),
    ] = 1000
    controller_heart_beat_timeout_mills: Annotated[
        PositiveMs, CONTROLLED("Time without a heartbeat after which the controller considers this broker dead.")
    ] = 10_000
    broker_election_priority: Annotated[
        int,
        Meta(ge=0, le=(1 << 31) - 1),
        CONTROLLED("Of replicas with the same log the one with the lowest number is elected."),
    ] = (1 << 31) - 1
    sync_broker_metadata_period: Annotated[
        PositiveMs, CONTROLLED("Interval of queries to the controller for the master.")
    ] = 5000
    sync_controller_metadata_period: Annotated[
        PositiveMs, CONTROLLED("Interval of queries for the lead controller.")
    ] = 10_000
    check_sync_state_set_period: Annotated[
        PositiveMs, CONTROLLED("Interval at which a master checks which replicas are in sync.")
    ] = 5000
    ha_max_time_slave_not_catchup: Annotated[
        PositiveMs, CONTROLLED("Time without being caught up after which a replica is no longer in sync.")
    ] = 15_000
    absence_window: Annotated[
        PositiveMs, CONTROLLED("Time within which a master sums how long sends waited for a replica.", java=OURS)
    ] = 120_000
    absence_share: Annotated[
        int,
        Meta(ge=1, le=100),
        CONTROLLED(
            "Part of absenceWindow in %, haMaxTimeSlaveNotCatchup at least, beyond which the replica leaves the set.",
            java=OURS,
        ),
    ] = 15
    absence_probation: Annotated[
        PositiveMs,
        CONTROLLED("Time without an absence after which it may return; doubled each time, up to 20 times.", java=OURS),
    ] = 30_000
    unsettled_patience: Annotated[
        PositiveMs,
        CONTROLLED(
            "Time that a log may wait for its disk: after it a master resigns, and a replica is not elected.",
            java=OURS,
        ),
    ] = 10_000
    async_learner: Annotated[bool, CONTROLLED("This broker is never in sync, so it is never elected.")] = False
    sync_from_last_file: Annotated[
        bool, CONTROLLED("Whether an empty replica starts with the newest file of the log instead of the oldest.")
    ] = False
    store_path_epoch_file: Annotated[
        str, CONTROLLED("File of the log's epochs; empty: epochFileCheckpoint under the root.")
    ] = ""
    store_path_broker_identity: Annotated[
        str, CONTROLLED("File of the id that the controller gave; empty: brokerIdentity under the root.")
    ] = ""
