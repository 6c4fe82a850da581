"""Settings of a name server, one field per setting, declared with `bolide.declaration`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from bolide.access.cluster_options import GuardedDaemonOptions
from bolide.declaration import (
    OURS,
    Port,
    PositiveCount,
    PositiveMs,
    Seconds,
    Section,
)
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

FILES: Final = Section("Files")
ROUTES: Final = Section("Routes and lists")
BROKERS: Final = Section("Brokers")
LIMITS: Final = Section("Limits")


class NamesrvOptions(GuardedDaemonOptions, frozen=True, kw_only=True):
    """Settings of a name server at startup."""

    bind_address: BindAddress = "127.0.0.1"
    listen_port: ListenPort = 9876

    metrics_exporter_type: Annotated[
        Literal["DISABLE", "PROM"],
        MONITORING("As a broker's: PROM serves /metrics, /healthz and /readyz.", java=OURS),
    ] = "DISABLE"
    metrics_prom_exporter_host: Annotated[str, MONITORING("Address of the pages; empty: bindAddress.", java=OURS)] = ""
    metrics_prom_exporter_port: Annotated[Port, MONITORING("Port of the pages; 0 picks a free one.", java=OURS)] = 5558
    log_format: LogFormat = "text"
    log_levels: LogLevels = ""
    log_file: LogFile = ""
    log_file_size: LogFileSize = 64 << 20
    log_file_age: LogFileAge = 24
    log_file_count: LogFileCount = 14

    kv_config_path: Annotated[
        str,
        FILES("File of the key and value configuration; empty: ~/namesrv/kvConfig.json.", java="namesrv/kvConfig.json"),
    ] = ""
    config_store_path: Annotated[
        str,
        FILES(
            "File of settings changed at run time, for a name server started without a file; empty: "
            "~/namesrv/namesrv.conf.",
            java="namesrv/namesrv.properties",
        ),
    ] = ""
    config_black_list: Annotated[str, FILES("Keys, separated by `;`, that UPDATE_NAMESRV_CONFIG rejects.")] = (
        "configBlackList;configStorePath;kvConfigPath"
    )

    order_message_enable: Annotated[
        bool, ROUTES("Add the order of queues to routes, from the namespace ORDER_TOPIC_CONFIG.", live=True)
    ] = False
    return_order_topic_config_to_broker: Annotated[
        bool, ROUTES("Return the namespace ORDER_TOPIC_CONFIG in responses to registrations.", live=True)
    ] = True
    enable_topic_list: Annotated[
        bool, ROUTES("Serve requests for the topics of a cluster, unit or system.", live=True)
    ] = True
    enable_all_topic_list: Annotated[bool, ROUTES("Serve requests for all topics.", live=True)] = True
    support_acting_master: Annotated[
        bool,
        ROUTES(
            "Return the slave with the smallest id as master while a broker that allows it has no master.", live=True
        ),
    ] = False
    notify_min_broker_id_changed: Annotated[
        bool,
        ROUTES(
            "Notify the brokers of a set, without TLS, when the broker with the smallest id changes: its master left "
            "or returned.",
            live=True,
        ),
    ] = False
    need_wait_for_service: Annotated[
        bool, ROUTES("Reject route requests until waitSecondsForService after the start.", live=True)
    ] = False
    wait_seconds_for_service: Annotated[Seconds, ROUTES("Time for all brokers to register.", live=True)] = 45

    delete_topic_with_broker_registration: Annotated[
        bool, BROKERS("Remove topics that a broker's registration no longer names.", live=True)
    ] = False
    scan_not_active_broker_interval: Annotated[
        PositiveMs, BROKERS("Interval of searches for expired brokers.", live=True)
    ] = 5000
    broker_channel_expired_time: Annotated[
        PositiveMs,
        BROKERS(
            "Time without a heartbeat after which a broker that registered no timeout is removed.",
            live=True,
            java=OURS,
        ),
    ] = 120_000

    max_kv_config_bytes: Annotated[
        PositiveCount,
        LIMITS("Characters of all namespaces, keys and values, and 32 for each entry.", live=True, java=OURS),
    ] = 4 * 1024 * 1024
    max_brokers: Annotated[
        PositiveCount, LIMITS("Addresses of brokers, and names of brokers in all clusters.", live=True, java=OURS)
    ] = 10_000
    max_topic_entries: Annotated[
        PositiveCount,
        LIMITS(
            "Maximum number of topics of all brokers; a topic of two brokers is counted twice.", live=True, java=OURS
        ),
    ] = 2_000_000

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
        return self.warnings_of(self.bind_address, "register as any broker and change routes and settings")


class Settings(LiveOptions[NamesrvOptions]):
    """Current settings. Code 318 replaces `options` when it changes settings."""

    def listed(self) -> str:
        """Return the keys that may not be changed at run time."""
        return self.options.config_black_list
