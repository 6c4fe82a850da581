"""Settings of a controller, one field per setting, declared with `bolide.declaration`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from bolide.access.cluster_options import GuardedDaemonOptions
from bolide.declaration import OURS, Ms, Port, PositiveCount, PositiveMs, Section
from bolide.remoting.listening import (
    MONITORING,
    BindAddress,
    ListenPort,
    LogFile,
    LogFileAge,
    LogFileCount,
    LogFileSize,
    LogFormat,
    LogLevels,
    MaxConnections,
    MaxFrameSeconds,
    MaxIdleSeconds,
    MaxUnfinishedBytes,
    TlsCertPath,
    TlsKeyPassword,
    TlsKeyPath,
    TlsMode,
    TlsNeedClientAuth,
    TlsTrustCertPath,
    TrustedProxies,
)
from bolide.remoting.live_options import LiveOptions

ENGINE: Final = Section("State and leader")
ELECTIONS: Final = Section("Elections")
FILES: Final = Section("Files")
LIMITS: Final = Section("Limits")
LeaseSeconds = Annotated[int, Meta(ge=2, le=300, extra={"unit": "s"})]


class ControllerOptions(GuardedDaemonOptions, frozen=True, kw_only=True):
    """Settings of a controller at startup."""

    bind_address: BindAddress = "127.0.0.1"
    listen_port: ListenPort = 9877
    metrics_exporter_type: Annotated[
        Literal["DISABLE", "PROM"], MONITORING("As a broker's: PROM serves /metrics, /healthz and /readyz.")
    ] = "DISABLE"
    metrics_prom_exporter_host: Annotated[str, MONITORING("Address of the pages; empty: bindAddress.")] = ""
    metrics_prom_exporter_port: Annotated[Port, MONITORING("Port of the pages; 0 picks a free one.", java="5557")] = (
        5559
    )
    log_format: LogFormat = "text"
    log_levels: LogLevels = ""
    log_file: LogFile = ""
    log_file_size: LogFileSize = 64 << 20
    log_file_age: LogFileAge = 24
    log_file_count: LogFileCount = 14
    controller_store: Annotated[
        str,
        ENGINE(
            "Where decisions are stored: `file:PATH`, one local file, which is not highly available, or "
            "`etcd:URL,URL`, the members of an etcd cluster; empty: `file:~/controller/sets.json`.",
            java=OURS,
        ),
    ] = ""
    controller_d_leger_group: Annotated[
        str,
        ENGINE("Name of the group of controllers that share one state in etcd.", java="null"),
    ] = "bolide"
    controller_d_leger_self_id: Annotated[str, ENGINE("Name of this controller, unique in its group.", java="null")] = (
        "n0"
    )
    leader_lease_seconds: Annotated[
        LeaseSeconds,
        ENGINE(
            "Time after which another controller may lead if the leader is unresponsive. With etcd only.", java=OURS
        ),
    ] = 5
    tls_client_auth_server: Annotated[
        bool, ENGINE("Reject an etcd whose certificate no trusted authority has signed for its name.", java="false")
    ] = True
    tls_client_trust_cert_path: Annotated[
        str, ENGINE("PEM certificates of the authorities trusted for etcd; empty: the system's.")
    ] = ""
    tls_client_cert_path: Annotated[
        str, ENGINE("PEM client certificate chain for etcd; empty: no client certificate.")
    ] = ""
    tls_client_key_path: Annotated[str, ENGINE("PEM private key of that certificate.")] = ""
    tls_client_key_password: Annotated[str, ENGINE("Password of that private key.")] = ""

    enable_elect_unclean_master: Annotated[
        bool,
        ELECTIONS(
            "Allow unclean elections: elect a replica that is not in sync if no in-sync replica is alive. "
            "Acknowledged messages may be lost.",
            live=True,
        ),
    ] = False
    max_wait_for_members: Annotated[
        Ms,
        ELECTIONS(
            "Longest wait of an election after a full stop. When every member of the last set in sync has been away, "
            "the election waits until all have returned, so that the longest log wins. After this time the longest log "
            "that is there wins, unless it is known that the set confirmed more. 0: no limit; an operator decides.",
            live=True,
            java=OURS,
        ),
    ] = 60_000
    notify_broker_role_changed: Annotated[
        bool, ELECTIONS("Notify the live replicas of a new master, without TLS.", live=True)
    ] = True
    scan_not_active_broker_interval: Annotated[
        PositiveMs, ELECTIONS("Time between searches for brokers that are silent.", live=True)
    ] = 5000
    scan_inactive_master_interval: Annotated[
        PositiveMs, ELECTIONS("Interval of searches for sets whose master has failed.", live=True)
    ] = 5000
    elect_master_max_retry_count: Annotated[
        PositiveCount, ELECTIONS("Maximum attempts of an election whose result cannot be stored.", live=True)
    ] = 3

    config_store_path: Annotated[
        str,
        FILES(
            "File of settings changed at run time, for a controller started without a file; empty: "
            "~/controller/controller.conf.",
            java="controller/controller.properties",
        ),
    ] = ""
    config_black_list: Annotated[str, FILES("Keys, separated by `;`, that UPDATE_CONTROLLER_CONFIG rejects.")] = (
        "configBlackList;configStorePath"
    )

    max_broker_sets: Annotated[
        PositiveCount, LIMITS("Maximum number of broker sets, including removed ones.", live=True, java=OURS)
    ] = 10_000
    max_brokers: Annotated[PositiveCount, LIMITS("Brokers whose heartbeats are counted.", java=OURS)] = 20_000
    max_requests_in_progress: Annotated[
        PositiveCount,
        LIMITS(
            "Maximum number of requests that wait for their decision to be stored; further requests are rejected.",
            java=OURS,
        ),
    ] = 10_000

    max_connections: MaxConnections = 20_000
    server_channel_max_idle_time_seconds: MaxIdleSeconds = 120
    max_unfinished_bytes: MaxUnfinishedBytes = 256 * 1024 * 1024
    max_frame_seconds: MaxFrameSeconds = 120
    trusted_proxies: TrustedProxies = ""

    tls_mode: TlsMode = "permissive"
    tls_cert_path: TlsCertPath = ""
    tls_key_path: TlsKeyPath = ""
    tls_key_password: TlsKeyPassword = ""
    tls_trust_cert_path: TlsTrustCertPath = ""
    tls_need_client_auth: TlsNeedClientAuth = "none"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to log at startup."""
        return self.warnings_of(self.bind_address, "join a broker set, become its master and remove sets")


class ControllerSettings(LiveOptions[ControllerOptions]):
    """Current settings. Code 1009 replaces the object when it changes settings."""

    def listed(self) -> str:
        """Return the keys that may not be changed at run time, separated by `;`."""
        return self.options.config_black_list
