"""What a broker can be told: one field a setting, declared as `bolide.declaration` says.

The settings of the store and of its files are inherited (`store/options.py`, `layout/shape.py`). Keys of RocketMQ that
are not here have no effect or refuse the start (`node/settings/`).
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from bolide.broker.core.replication_options import ReplicationOptions
from bolide.declaration import (
    OURS,
    Bytes,
    Count,
    Ms,
    Port,
    PositiveBytes,
    PositiveCount,
    PositiveMs,
    PositiveSeconds,
    Section,
    Timestamp,
    java_key,
)
from bolide.errors import ConfigError
from bolide.layout.names import MASTER_ID, REPLY_TOPIC_SUFFIX, TRACE_TOPIC
from bolide.layout.shape import DELAYS, FILES, LIGHT_QUEUES, StoreShape
from bolide.remoting.listening import (
    CONNECTIONS,
    MONITORING,
    PLACE,
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
)
from bolide.store.options import SENDS

REGISTRATION: Final = Section("Registration")
CREATION: Final = Section("Permissions and implicit creation")
PULLS: Final = Section("Pulls")
FILTERS: Final = Section("Filters")
GROUPS: Final = Section("Consumers")
TRANSACTIONS: Final = Section("Transactions")
QUERIES: Final = Section("Queries and operation")
TLS_OUT: Final = Section("TLS to name servers")
PLUGINS: Final = Section("Plug-ins")
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Addresses that only this machine reaches."""


class BrokerOptions(ReplicationOptions, frozen=True, kw_only=True, rename=java_key):
    """Everything a broker is told at start."""

    broker_cluster_name: Annotated[str, PLACE("Cluster that the broker registers in.")] = "DefaultCluster"
    broker_name: Annotated[str, PLACE("Name that the broker registers.", java="the machine's name")] = "broker-a"
    broker_id: Annotated[
        int, Meta(ge=0), PLACE("Number among the brokers of a name: a slave's is above 0, a master's always 0.")
    ] = 0
    broker_role: Annotated[
        Literal["ASYNC_MASTER", "SYNC_MASTER", "SLAVE"],
        PLACE("Whether it copies a master's log (SLAVE), and whether a master's sends wait for slaves (SYNC_MASTER)."),
    ] = "ASYNC_MASTER"
    broker_ip1: Annotated[
        str,
        PLACE("Address given to clients and stored in records; empty: the bound one.", java="the machine's address"),
    ] = ""
    broker_ip2: Annotated[str, PLACE("Address given to replicas; empty: brokerIP1.", java="the machine's address")] = ""
    bind_address: BindAddress = "127.0.0.1"
    listen_port: ListenPort = 10911
    fast_port_enable: Annotated[
        bool, PLACE("Also listen on listenPort - 2, which serves no pulls. RocketMQ always does.", java=OURS)
    ] = False
    store_path_root_dir: Annotated[str, FILES("Folder of the store.")] = "~/store"
    store_path_commit_log: Annotated[
        str, FILES("Only commitlog/ under the root is accepted.", java="commitlog/ under the root")
    ] = ""

    metrics_exporter_type: Annotated[
        Literal["DISABLE", "PROM"],
        MONITORING("PROM: serve /metrics for Prometheus, /healthz and /readyz. It needs the extra `bolide[metrics]`."),
    ] = "DISABLE"
    metrics_prom_exporter_host: Annotated[str, MONITORING("Address of the pages; empty: bindAddress.")] = ""
    metrics_prom_exporter_port: Annotated[Port, MONITORING("Port of the pages; 0 picks a free one.")] = 5557
    log_format: LogFormat = "text"
    log_levels: LogLevels = ""
    log_file: LogFile = ""
    log_file_size: LogFileSize = 64 << 20
    log_file_age: LogFileAge = 24
    log_file_count: LogFileCount = 14

    namesrv_addr: Annotated[str, REGISTRATION("Name servers, `host:port;host:port`; empty: none.")] = ""
    register_broker_timeout_mills: Annotated[
        PositiveMs, REGISTRATION("Time a name server has to answer a registration.")
    ] = 24_000
    register_name_server_period: Annotated[
        int, Meta(ge=10_000, le=60_000, extra={"unit": "ms"}), REGISTRATION("Time between registrations.")
    ] = 30_000
    compressed_register: Annotated[bool, REGISTRATION("Compress the topics in a registration.")] = False
    region_id: Annotated[str, REGISTRATION("Region told to producers with each acknowledgement.")] = "DefaultRegion"

    broker_permission: Annotated[
        int,
        Meta(ge=0, le=7),
        CREATION("What clients may do here: the sum of 4 (read) and 2 (write).", live=True),
    ] = 6
    auto_create_topic_enable: Annotated[
        bool, CREATION("A send creates its topic from the topic it names as default.", live=True)
    ] = True
    auto_create_subscription_group: Annotated[
        bool, CREATION("The first request of a consumer group creates it.", live=True)
    ] = True
    default_topic_queue_nums: Annotated[
        int, Meta(ge=1, le=65_536), CREATION("Queues of an implicitly created topic.")
    ] = 8
    cluster_topic_enable: Annotated[bool, CREATION("Keep a topic named after the cluster.")] = True
    broker_topic_enable: Annotated[bool, CREATION("Keep a topic named after the broker.")] = True
    trace_topic_enable: Annotated[bool, CREATION("Keep the topic of message traces.")] = False
    msg_trace_topic_name: Annotated[str, CREATION("Name of the topic of message traces.")] = TRACE_TOPIC
    trace_on: Annotated[bool, CREATION("Tell producers to trace.")] = True
    enable_mixed_message_type: Annotated[bool, CREATION("Topics may have the attribute message.type=MIXED.")] = False
    enable_split_metadata: Annotated[
        bool, CREATION("Send the tables of topics and groups in parts to a peer that asks for parts.")
    ] = True
    split_metadata_size: Annotated[
        PositiveCount, CREATION("Topics or groups in each part of a table that is sent in parts.")
    ] = 2000
    max_topics: Annotated[
        PositiveCount, CREATION("Number of topics from which no further one is created.", live=True, java=OURS)
    ] = 200_000
    max_groups: Annotated[
        PositiveCount, CREATION("Number of groups from which no further one is created.", live=True, java=OURS)
    ] = 200_000
    unused_group_expire_time: Annotated[
        Ms,
        CREATION(
            "Remove an implicitly created group that has had no member, offset or retry for this time; 0: never.",
            live=True,
            java=OURS,
        ),
    ] = 24 * 3600 * 1000

    reject_transaction_message: Annotated[bool, SENDS("Refuse transactional messages.")] = False
    max_batch_messages: Annotated[
        PositiveCount, SENDS("Maximum number of messages in a batch; a longer batch is refused.", java=OURS)
    ] = 16_384
    store_reply_message_enable: Annotated[
        bool, SENDS("Store the replies of request-reply in the cluster's reply topic.")
    ] = True
    start_accept_send_request_time_stamp: Annotated[
        Timestamp, SENDS("Refuse sends until this time; 0: accept them at once.", live=True)
    ] = 0
    broker_fast_failure_enable: Annotated[
        bool, SENDS("Refuse sends with [TIMEOUT_CLEAN_QUEUE] at the next limit.", live=True)
    ] = True
    wait_time_mills_in_send_queue: Annotated[
        PositiveMs, SENDS("Time a send waited for its turn from which it is refused.", live=True)
    ] = 200
    os_page_cache_busy_time_out_mills: Annotated[
        PositiveMs, SENDS("Time a send waited for its turn from which it is refused in any case.", live=True)
    ] = 1000
    send_thread_pool_queue_capacity: Annotated[
        PositiveCount,
        SENDS("Sends waiting for the log from which others are refused with [OVERLOAD].", live=True, java="10000"),
    ] = 100_000
    max_parked_send_bytes: Annotated[
        PositiveBytes,
        SENDS("Bytes of the log that sends wait for, from which others are refused.", live=True, java=OURS),
    ] = 512 * 1024 * 1024
    max_parked_send_millis: Annotated[
        PositiveMs,
        SENDS("Age of the oldest send waiting for the log from which others are refused.", live=True, java=OURS),
    ] = 3000

    timer_wheel_enable: Annotated[bool, DELAYS("Accept messages with a delay or a delivery time.")] = True
    timer_precision_ms: Annotated[
        PositiveMs, DELAYS("Width of a timer slot: the greatest of 100, 200, 500 and 1000 that is not above it.")
    ] = 1000
    timer_max_delay_sec: Annotated[PositiveSeconds, DELAYS("Longest delay accepted.")] = 3 * 24 * 3600
    timer_roll_window_slot: Annotated[
        Count, DELAYS("Slots a message waits in one go; one due later is stored again on the way.")
    ] = 2 * 24 * 3600
    timer_congest_num_each_slot: Annotated[
        PositiveCount, DELAYS("Messages of one slot from which some are refused, and from twice as many all.")
    ] = (1 << 31) - 1
    timer_flush_interval_ms: Annotated[PositiveMs, DELAYS("Time between flushes of the timer's files.")] = 1000
    timer_stop_enqueue: Annotated[bool, DELAYS("Leave new timer messages in their topic.")] = False
    timer_stop_dequeue: Annotated[bool, DELAYS("Deliver no timer messages.", java=OURS)] = False
    append_topic_for_timer_delete_key: Annotated[
        bool, DELAYS("Recalls name topic and key, as 5.3.1 to 5.3.3 do; false: the key alone.")
    ] = False
    mapped_file_size_timer_log: Annotated[
        int, Meta(ge=120, le=1 << 31, extra={"unit": "bytes"}), DELAYS("Size of a file of the timer's log.")
    ] = 100 * 1024 * 1024
    recall_message_enable: Annotated[bool, DELAYS("Accept recalls of timer messages.")] = False
    allow_recall_when_broker_not_writeable: Annotated[
        bool, DELAYS("Accept recalls also while brokerPermission forbids writing.")
    ] = True
    flush_delay_offset_interval: Annotated[
        PositiveMs, DELAYS("Time between writes of the progress of delay levels.")
    ] = 10_000

    long_polling_enable: Annotated[
        bool, PULLS("Hold a pull that finds nothing as long as it asks for; false: shortPollingTimeMills.")
    ] = True
    short_polling_time_mills: Annotated[PositiveMs, PULLS("Time a pull is held without long polling.")] = 1000
    lite_pull_message_enable: Annotated[bool, PULLS("Accept LITE_PULL_MESSAGE (361).")] = True
    slave_read_enable: Annotated[
        bool, PULLS("A slave serves pulls; a master sends consumers that are far back to one.")
    ] = False
    offset_check_in_slave: Annotated[bool, PULLS("A slave corrects offsets out of range, too.")] = False
    offset_moved_event_enable: Annotated[
        bool,
        PULLS("Store an event in OFFSET_MOVED_EVENT when a pull's offset is corrected, as 4.9 does.", java=OURS),
    ] = True
    use_server_side_reset_offset: Annotated[bool, PULLS("Keep a reset offset until its next pull uses it.")] = True
    max_held_requests: Annotated[
        PositiveCount,
        PULLS("Maximum number of held pulls; further ones are answered FLOW_CONTROL.", live=True, java=OURS),
    ] = 100_000
    hold_sweep_interval: Annotated[
        PositiveMs, PULLS("Time between comparisons of every held pull with its queue.", java=OURS)
    ] = 5000
    max_cold_read_bytes: Annotated[
        Bytes,
        PULLS("Maximum memory of requests that wait for the disk; above it further ones are refused.", java=OURS),
    ] = 256 * 1024 * 1024

    enable_property_filter: Annotated[bool, FILTERS("Accept SQL92 filters.")] = False
    filter_support_retry: Annotated[
        bool, FILTERS("Filter retry topics by the expressions that first selected their messages.")
    ] = False
    filter_data_clean_time_span: Annotated[
        PositiveMs, FILTERS("Time after which a filter that its group no longer names is forgotten.")
    ] = 24 * 3600 * 1000
    max_filter_length: Annotated[PositiveCount, FILTERS("Maximum number of characters in a filter.", java=OURS)] = (
        32_768
    )
    max_filter_operations: Annotated[
        PositiveCount, FILTERS("Maximum number of names, literals and operators in a SQL92 filter.", java=OURS)
    ] = 5_000
    max_consumer_filter_size: Annotated[
        PositiveCount,
        FILTERS(
            "Maximum characters of all registered filters, their topics and groups; each filter counts 256 more.",
            live=True,
            java=OURS,
        ),
    ] = 4 * 1024 * 1024

    notify_consumer_ids_changed_enable: Annotated[
        bool, GROUPS("Tell the members of a group when one joins or leaves.")
    ] = True
    flush_consumer_offset_interval: Annotated[PositiveMs, GROUPS("Time between writes of committed offsets.")] = 5000
    rebalance_lock_max_live_time: Annotated[
        PositiveMs, GROUPS("Time after which the queue lock of an orderly consumer lapses.", java=OURS)
    ] = 60_000
    max_consumer_offsets: Annotated[
        PositiveCount, GROUPS("Maximum number of committed offsets of all groups.", live=True, java=OURS)
    ] = 2_000_000
    max_queue_locks: Annotated[
        PositiveCount, GROUPS("Maximum number of queue locks of all groups.", live=True, java=OURS)
    ] = 200_000
    max_subscriptions: Annotated[
        PositiveCount,
        GROUPS(
            "Maximum subscriptions of all connected groups; every 1024 characters of one count as another.",
            live=True,
            java=OURS,
        ),
    ] = 1_000_000

    enable_lmq_quota: Annotated[
        bool, LIGHT_QUEUES("Limit light queues to maxLmqConsumeQueueNum; false: to maxTopics.")
    ] = False
    max_lmq_consume_queue_num: Annotated[
        PositiveCount, LIGHT_QUEUES("Maximum number of light queues if enableLmqQuota is true.")
    ] = 20_000

    transaction_time_out: Annotated[
        PositiveMs, TRANSACTIONS("Age from which the producer of a half message is asked for the outcome.")
    ] = 6000
    transaction_check_interval: Annotated[PositiveMs, TRANSACTIONS("Time between checks of half messages.")] = 30_000
    transaction_check_max: Annotated[
        Count, TRANSACTIONS("Checks after which a half message goes to TRANS_CHECK_MAX_TIME_TOPIC.")
    ] = 15
    max_open_transactions: Annotated[
        PositiveCount,
        TRANSACTIONS(
            "Maximum number of half messages that are not ended; further ones are refused.", live=True, java=OURS
        ),
    ] = 1_000_000

    default_query_max_num: Annotated[PositiveCount, QUERIES("Messages that a query by unique id returns at most.")] = 32
    max_msgs_num_batch: Annotated[PositiveCount, QUERIES("Messages that any query by key returns at most.")] = 64
    config_black_list: Annotated[
        str,
        QUERIES("Keys, separated by `;`, that UPDATE_BROKER_CONFIG refuses.", java="configBlackList;brokerConfigPath"),
    ] = "configBlackList;brokerConfigPath;rocketmqHome"

    max_connections: MaxConnections = 20_000
    server_channel_max_idle_time_seconds: MaxIdleSeconds = 120
    channel_expired_timeout: Annotated[
        PositiveMs, CONNECTIONS("Time without a heartbeat after which a client is forgotten.")
    ] = 120_000
    max_frame_length: Annotated[
        PositiveBytes, CONNECTIONS("Longest request; a longer one closes its connection.", java=OURS)
    ] = 16 * 1024 * 1024
    max_unfinished_bytes: MaxUnfinishedBytes = 256 * 1024 * 1024
    max_frame_seconds: MaxFrameSeconds = 120
    client_write_buffer_high: Annotated[
        Bytes, CONNECTIONS("Unread bytes of a peer above which its requests are not read.", java=OURS)
    ] = 4 * 1024 * 1024
    client_write_buffer_limit: Annotated[
        Bytes, CONNECTIONS("Unread bytes of a peer above which it is disconnected.", java=OURS)
    ] = 128 * 1024 * 1024
    client_write_buffer_total: Annotated[
        Bytes,
        CONNECTIONS("Unread bytes of all peers above which pulls are answered FLOW_CONTROL.", live=True, java=OURS),
    ] = 1024 * 1024 * 1024

    tls_mode: TlsMode = "permissive"
    tls_cert_path: TlsCertPath = ""
    tls_key_path: TlsKeyPath = ""
    tls_key_password: TlsKeyPassword = ""
    tls_trust_cert_path: TlsTrustCertPath = ""
    tls_need_client_auth: TlsNeedClientAuth = "none"
    tls_enable: Annotated[
        Literal["", "true", "false"],
        TLS_OUT("Speak TLS to name servers; empty: when tlsMode is enforcing."),
    ] = ""
    tls_client_auth_server: Annotated[
        bool, TLS_OUT("Refuse a name server whose certificate no trusted authority has signed.")
    ] = False
    tls_client_trust_cert_path: Annotated[
        str, TLS_OUT("PEM certificates of the authorities trusted for name servers; empty: the system's.")
    ] = ""
    tls_client_cert_path: Annotated[str, TLS_OUT("PEM certificate chain shown to name servers; empty: none.")] = ""
    tls_client_key_path: Annotated[str, TLS_OUT("PEM private key of that certificate.")] = ""
    tls_client_key_password: Annotated[str, TLS_OUT("Password of that private key.")] = ""

    dispatchers: Annotated[
        str, PLUGINS("Dispatchers, separated by `;`: each gets every record of the log.", java=OURS)
    ] = ""
    broker_hooks: Annotated[
        str, PLUGINS("Hooks, separated by `;`, around requests, sends and pulls, in this order.", java=OURS)
    ] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        # Settings that are allowed one by one may not fit together.
        StoreShape.of(self)
        self.check_acting(self.namesrv_addr)
        if self.ha_tls_enable:
            self._check_ha_tls()
        if self.enable_controller_mode:
            self._check_controlled()
            return
        alone = "needs enableControllerMode = true: without a controller there is no set of replicas in sync"
        if self.all_ack_in_sync_state_set:
            raise ConfigError(f"allAckInSyncStateSet = true {alone}")
        if self.min_in_sync_replicas > 1 and not self.enable_auto_in_sync_replicas:
            raise ConfigError(
                f"minInSyncReplicas = {self.min_in_sync_replicas} needs enableControllerMode = true or "
                f"enableAutoInSyncReplicas = true: without them a send waits for inSyncReplicas, or is answered so"
            )
        if self.broker_role == "SLAVE" and self.broker_id == MASTER_ID:
            raise ConfigError("brokerRole = SLAVE needs a brokerId above 0: 0 is its master")
        if self.waits_for_slaves and self.broker_role == "ASYNC_MASTER":
            key = "inSyncReplicas" if self.in_sync_replicas > 1 else "minInSyncReplicas"
            waits = f"{key} = {max(self.in_sync_replicas, self.min_in_sync_replicas)}"
            raise ConfigError(f"{waits} needs brokerRole = SYNC_MASTER: an ASYNC_MASTER answers without its slaves")

    def _check_ha_tls(self) -> None:
        wanted = {
            "tlsCertPath": self.may_lead and not self.tls_cert_path,
            "tlsKeyPath": self.may_lead and not self.tls_key_path,
            "tlsTrustCertPath": self.may_lead and not self.tls_trust_cert_path,
            "tlsClientCertPath": self.may_follow and not self.tls_client_cert_path,
            "tlsClientKeyPath": self.may_follow and not self.tls_client_key_path,
            "tlsClientTrustCertPath": self.may_follow and not self.tls_client_trust_cert_path,
        }
        missing = [key for key, lacks in wanted.items() if lacks]
        if missing:
            raise ConfigError(f"haTlsEnable = true needs {', '.join(missing)}: both sides show and check certificates")

    @property
    def serves_log(self) -> bool:
        """True when slaves may connect: anyone who reaches the port gets the whole log, so it is asked for."""
        if self.enable_controller_mode or self.broker_role == "SYNC_MASTER":
            return True
        return self.broker_role != "SLAVE" and self.ha_listen_port > 0

    @property
    def may_lead(self) -> bool:
        """True for a broker that may have slaves."""
        return self.enable_controller_mode or self.broker_role != "SLAVE"

    @property
    def may_follow(self) -> bool:
        """True for a broker that may follow a master's log."""
        return self.enable_controller_mode or self.broker_role == "SLAVE"

    def _check_controlled(self) -> None:
        if not self.controller_addr.strip():
            raise ConfigError("enableControllerMode = true needs controllerAddr: write host:port;host:port")
        if self.ha_master_address:
            raise ConfigError(
                f"haMasterAddress = {self.ha_master_address} is not allowed with enableControllerMode = true: the "
                f"controller says who is the master; leave it out"
            )
        if not self.namesrv_addr:
            raise ConfigError("enableControllerMode = true needs namesrvAddr: replicas find their master's log by it")

    @property
    def waits_for_slaves(self) -> bool:
        """True when the answer to a send may wait for other machines."""
        return max(self.in_sync_replicas, self.min_in_sync_replicas) > 1 or self.all_ack_in_sync_state_set

    @property
    def send_patience(self) -> int:
        """How long a send waits for disk and slaves, ms. In plain mode its record is delivered after slaveTimeout, so
        only the disk makes it wait longer; under a controller it is not delivered before every replica has it."""
        if not self.waits_for_slaves:
            return self.sync_flush_timeout
        if self.enable_controller_mode:
            return self.slave_timeout
        return max(self.sync_flush_timeout, self.slave_timeout)

    @property
    def cluster_reply_topic(self) -> str:
        """Topic through which replies to requests travel in this cluster."""
        return self.broker_cluster_name + REPLY_TOPIC_SUFFIX

    @property
    def spoken_name(self) -> str:
        """What refusals call this broker: its address as in RocketMQ, its name until the address is known."""
        return self.broker_ip1 or self.broker_name

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an operator should know about these settings at the start."""
        found = []
        if self.enable_lmq != self.enable_multi_dispatch:
            alone = "enableLmq" if self.enable_lmq else "enableMultiDispatch"
            text = f"{alone} alone lets no message enter a light queue: set enableLmq and enableMultiDispatch together"
            found.append(text)
        if self.enable_controller_mode:
            if self.broker_role != "ASYNC_MASTER" or self.broker_id != MASTER_ID:
                found.append("brokerRole and brokerId have no effect: the controller says who is the master")
        elif self.broker_role != "SLAVE" and self.broker_id != MASTER_ID:
            found.append(
                f"brokerId = {self.broker_id} is taken as 0: a broker with brokerRole = {self.broker_role} is a master"
            )
        if self._closed_fast_port:
            found.append(f"fastPortEnable = false: {self._closed_fast_port}")
        guarded = self.authentication_enabled or self.acl_enable
        if not guarded and self.bind_address not in LOOPBACK:
            text = f"anyone who reaches {self.bind_address} may do anything, see docs/security.md"
            found.append(f"authenticationEnabled = false: {text}")
        if self.enable_slave_acting_master and self.broker_role == "SLAVE" and not self.slave_read_enable:
            found.append("slaveReadEnable = false: as acting master this broker would serve no pulls")
        if guarded and self.serves_log and not self.ha_tls_enable and self.bind_address not in LOOPBACK:
            text = (
                "slaves sign nothing there, so anyone who reaches it gets the whole log: set haTlsEnable, see "
                "docs/security.md"
            )
            found.append(f"haListenPort = {self.ha_listen_port}: {text}")
        return tuple(found)

    @property
    def _closed_fast_port(self) -> str:
        """What brokers of RocketMQ in the same set miss without a fast port here; nothing where they miss nothing."""
        if self.fast_port_enable:
            return ""
        text = "slaves of RocketMQ ask for topics and the timer's state at listenPort - 2, and would replicate neither"
        if self.serves_log:
            return text
        acts = self.enable_slave_acting_master and self.broker_role == "SLAVE"
        text = "a master of RocketMQ that comes back asks for timers at listenPort - 2, or never registers again"
        return text if acts else ""
