"""What a broker can be told: one frozen struct with Java's keys and defaults (BrokerConfig, MessageStoreConfig).

Field names are ours in snake case; the key in `broker.conf` is Java's (`java_key`). Every field states its unit and
range, which the loader (`node/settings/config.py`) checks. Where a default differs from Java's the line says so.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from bolide.layout.names import REPLY_TOPIC_SUFFIX, TRACE_TOPIC

Ms = Annotated[int, Meta(ge=0, le=86_400_000 * 366, extra={"unit": "ms"})]
PositiveMs = Annotated[int, Meta(ge=1, le=86_400_000 * 366, extra={"unit": "ms"})]
Bytes = Annotated[int, Meta(ge=0, le=1 << 40, extra={"unit": "bytes"})]
Count = Annotated[int, Meta(ge=0, le=1 << 31, extra={"unit": "count"})]
PositiveCount = Annotated[int, Meta(ge=1, le=1 << 31, extra={"unit": "count"})]
Percent = Annotated[int, Meta(ge=0, le=100, extra={"unit": "percent"})]
Port = Annotated[int, Meta(ge=0, le=65535, extra={"unit": "port"})]
Perm = Annotated[int, Meta(ge=0, le=7)]

_IRREGULAR: Final = {"broker_ip1": "brokerIP1", "broker_ip2": "brokerIP2"}


def java_key(name: str) -> str:
    """The key in `broker.conf` for a field of ours: `flush_disk_type` -> `flushDiskType`."""
    if name in _IRREGULAR:
        return _IRREGULAR[name]
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


class BrokerOptions(Struct, frozen=True, kw_only=True, rename=java_key):
    """Everything a broker is told at start. Times in ms, sizes in bytes."""

    # who and where
    broker_cluster_name: str = "DefaultCluster"
    broker_name: str = "broker-a"
    broker_id: Annotated[int, Meta(ge=0)] = 0
    broker_role: Literal["ASYNC_MASTER", "SYNC_MASTER", "SLAVE"] = "ASYNC_MASTER"
    broker_ip1: str = ""
    """Address told to clients and stored in records; "" = the bound address, or the machine's when bound to all."""
    broker_ip2: str = ""
    """Address told to slaves; "" = broker_ip1."""
    bind_address: str = "127.0.0.1"
    """Address to listen on. Java binds 0.0.0.0; here a listener is on loopback unless told otherwise."""
    listen_port: Port = 10911
    """0 picks a free port."""
    fast_port_enable: bool = False
    """Also listen on listenPort-2 (the VIP channel, no PULL there). Java: always."""
    namesrv_addr: str = ""
    """Name servers, `host:port;host:port`."""
    rocketmq_home: str = ""

    # permissions and automatic creation
    broker_permission: Perm = 6
    default_topic_queue_nums: Annotated[int, Meta(ge=1, le=65_536, extra={"unit": "count"})] = 8
    auto_create_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = TRACE_TOPIC
    trace_on: bool = True
    region_id: str = "DefaultRegion"
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    reject_transaction_message: bool = False
    enable_mixed_message_type: bool = False
    """Topics may have the attribute message.type=MIXED (5.x)."""
    enable_split_metadata: bool = True
    """Tables of topics and groups are told in parts to who asks for parts (5.x)."""
    split_metadata_size: PositiveCount = 2000
    auto_message_version_on_topic_len: bool = True

    # delays of any length
    timer_wheel_enable: bool = True
    timer_precision_ms: PositiveMs = 1000
    """Width of a slot: 100, 200, 500 or 1000; another value means the greatest of these that is not above it."""
    timer_max_delay_sec: Annotated[int, Meta(ge=1, le=1 << 31, extra={"unit": "s"})] = 3 * 24 * 3600
    timer_roll_window_slot: Count = 2 * 24 * 3600
    """Slots a message waits in one go; what is due later goes back to the timer topic on the way."""
    timer_congest_num_each_slot: PositiveCount = (1 << 31) - 1
    """Messages of one slot from which on some are refused, and from twice as many on all."""
    timer_flush_interval_ms: PositiveMs = 1000
    timer_stop_enqueue: bool = False
    timer_stop_dequeue: bool = False
    append_topic_for_timer_delete_key: bool = False
    """Deletes name topic and key (5.3.1 to 5.3.3), else the key alone."""
    mapped_file_size_timer_log: Annotated[int, Meta(ge=120, le=1 << 31, extra={"unit": "bytes"})] = 100 * 1024 * 1024
    recall_message_enable: bool = False
    allow_recall_when_broker_not_writeable: bool = True

    # pull and hold
    long_polling_enable: bool = True
    short_polling_time_mills: PositiveMs = 1000
    lite_pull_message_enable: bool = True
    enable_property_filter: bool = False
    filter_support_retry: bool = False
    """Filter retry topics by the expressions their messages were first selected by."""
    filter_data_clean_time_span: PositiveMs = 24 * 3600 * 1000
    slave_read_enable: bool = False
    offset_check_in_slave: bool = False
    offset_moved_event_enable: bool = True
    """Store an event in OFFSET_MOVED_EVENT when a pull's offset is corrected, as 4.9 does (5.x: a line in its log)."""
    max_transfer_bytes_on_message_in_memory: Bytes = 256 * 1024
    max_transfer_count_on_message_in_memory: PositiveCount = 32
    max_transfer_bytes_on_message_in_disk: Bytes = 64 * 1024
    max_transfer_count_on_message_in_disk: PositiveCount = 8
    access_message_in_memory_max_ratio: Percent = 40
    max_filter_message_size: PositiveCount = 16000
    max_filter_length: PositiveCount = 32_768
    """Characters of a filter expression. Ours, like the next; Java is limited by the frame only."""
    max_filter_operations: PositiveCount = 5_000
    """Names, literals and operators of a SQL92 filter."""
    max_held_requests: PositiveCount = 100_000
    """Pull requests held at once; beyond it a miss is answered with FLOW_CONTROL. Ours; Java has no limit."""
    hold_sweep_interval: PositiveMs = 5000
    """Safety net behind the wake-ups: every held pull is compared with its queue this often."""

    max_cold_read_bytes: Bytes = 256 * 1024 * 1024
    """Bytes kept for all requests that wait for the disk; beyond it requests are refused. Ours."""

    # connections
    max_connections: PositiveCount = 20_000
    server_channel_max_idle_time_seconds: PositiveCount = 120
    client_channel_expired_time: PositiveMs = 120_000
    max_frame_length: PositiveCount = 16 * 1024 * 1024
    max_unfinished_bytes: PositiveCount = 256 * 1024 * 1024
    """Bytes of unfinished frames of all connections; beyond it the connection with the oldest is closed. Ours."""
    max_frame_seconds: PositiveCount = 120
    """A connection whose frame takes longer than this is closed. Ours."""
    client_write_buffer_high: Bytes = 4 * 1024 * 1024
    """A peer that leaves more than this unread is not read from until it has caught up."""
    client_write_buffer_limit: Bytes = 128 * 1024 * 1024
    """A peer that leaves more than this unread is disconnected."""
    client_write_buffer_total: Bytes = 1024 * 1024 * 1024
    """While all peers together leave more than this unread, pulls are answered with FLOW_CONTROL."""
    notify_consumer_ids_changed_enable: bool = True
    use_server_side_reset_offset: bool = True

    # TLS on the same port, by the first byte; Java's tls.server.* are taken as these
    tls_mode: Literal["disabled", "permissive", "enforcing"] = "permissive"
    """permissive: TLS for those who begin it, when there is a certificate. enforcing: nothing else."""
    tls_cert_path: str = ""
    """PEM certificate chain; "" = none. Java makes up a certificate of its own for tests."""
    tls_key_path: str = ""
    """PEM private key of the certificate."""
    tls_key_password: str = ""
    tls_trust_cert_path: str = ""
    """PEM certificates that vouch for clients."""
    tls_need_client_auth: Literal["none", "optional", "require"] = "none"

    # TLS to the name servers; Java's tls.enable and tls.client.*
    tls_enable: Literal["", "true", "false"] = ""
    """Whether this broker speaks TLS to its name servers; "" = it does when tlsMode is enforcing, as in Java."""
    tls_client_auth_server: bool = False
    """Refuse name servers whose certificate nobody vouches for. Java's default, too: any certificate will do."""
    tls_client_trust_cert_path: str = ""
    """PEM certificates that vouch for name servers; "" = those of this machine."""
    tls_client_cert_path: str = ""
    """PEM certificate chain shown to name servers that ask for one; "" = none."""
    tls_client_key_path: str = ""
    """PEM private key of that certificate."""
    tls_client_key_password: str = ""

    # plug-ins by name, joined by `;`
    dispatchers: str = ""
    """Each is handed every record of the log, in a thread of its own. Ours."""
    broker_hooks: str = ""
    """Called around requests, sends and pulls, in this order. Ours."""

    # registration
    register_broker_timeout_mills: PositiveMs = 24_000
    register_name_server_period: Annotated[int, Meta(ge=10_000, le=60_000, extra={"unit": "ms"})] = 30_000
    compressed_register: bool = False
    broker_not_active_timeout_millis: PositiveMs = 10_000
    enable_acting_master: bool = False

    # store: where and how large
    store_path_root_dir: str = "~/store"
    store_path_commit_log: str = ""
    """"" = commitlog/ under the root. Several folders joined by `,` are not supported."""
    mapped_file_size_commit_log: Annotated[int, Meta(ge=4096, le=1 << 31, extra={"unit": "bytes"})] = 1 << 30
    mapped_file_size_consume_queue: Annotated[int, Meta(ge=20, le=1 << 31, extra={"unit": "bytes"})] = 300_000 * 20
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: PositiveCount = 48 * 1024 * 1024
    enable_calc_filter_bit_map: bool = False
    expect_consumer_num_use_filter: PositiveCount = 32
    max_error_rate_of_bloom_filter: Annotated[int, Meta(ge=1, le=99, extra={"unit": "percent"})] = 20
    max_hash_slot_num: PositiveCount = 5_000_000
    max_index_num: PositiveCount = 20_000_000
    message_index_enable: bool = True
    message_index_safe: bool = False
    index_file_write_enable: bool = True
    index_file_read_enable: bool = True
    store_version: Literal["5.5", "4.9"] = "5.5"
    """How derived files are written (index entries for tags, checkpoint); ours."""
    max_message_size: Annotated[int, Meta(ge=1, le=16 * 1024 * 1024 - 65536, extra={"unit": "bytes"})] = 4 * 1024 * 1024
    enabled_append_prop_crc: bool = field(name="enabledAppendPropCRC", default=False)
    force_verify_prop_crc: bool = field(name="forceVerifyPropCRC", default=False)
    enable_lmq: bool = False
    """Topics and groups called %LMQ%… exist without being configured; their offsets have a file of their own."""
    enable_multi_dispatch: bool = False
    """With enableLmq: messages also enter the light queues that INNER_MULTI_DISPATCH lists."""
    enable_lmq_quota: bool = False
    """Keep light queues to the number of the next key; else maxTopics bounds them."""
    max_lmq_consume_queue_num: PositiveCount = 20_000

    # store: flush
    flush_disk_type: Literal["ASYNC_FLUSH", "SYNC_FLUSH"] = "SYNC_FLUSH"
    """Java: ASYNC_FLUSH. Here an acknowledged message is on disk unless told otherwise."""
    sync_flush_timeout: PositiveMs = 5000
    flush_interval_commit_log: PositiveMs = 500
    flush_commit_log_timed: bool = True
    flush_commit_log_least_pages: Count = 0
    """Java: 4. With 0 even a few messages are on disk after one interval."""
    flush_commit_log_thorough_interval: PositiveMs = 10_000
    flush_interval_consume_queue: PositiveMs = 1000
    flush_consume_queue_least_pages: Count = 2
    flush_consume_queue_thorough_interval: PositiveMs = 60_000
    transient_store_pool_enable: bool = False
    os_page_cache_busy_time_out_mills: PositiveMs = field(name="osPageCacheBusyTimeOutMills", default=1000)
    flush_consumer_offset_interval: PositiveMs = 5000
    flush_delay_offset_interval: PositiveMs = 10_000

    # store: recovery and retention
    check_crc_on_recover: bool = field(name="checkCRCOnRecover", default=True)
    commit_log_recover_max_num: PositiveCount = 10
    delete_when: str = "04"
    file_reserved_time: PositiveCount = 72
    """Hours a CommitLog file is kept after its last change."""
    clean_resource_interval: PositiveMs = 10_000
    clean_file_forcibly_enable: bool = True
    disk_max_used_space_ratio: Annotated[int, Meta(ge=10, le=95, extra={"unit": "percent"})] = 75
    disk_space_clean_forcibly_ratio: Percent = 85
    disk_space_warning_level_ratio: Percent = 90
    delete_file_batch_max: PositiveCount = 10
    duplication_enable: bool = False

    # send
    max_batch_messages: PositiveCount = 16_384
    """Messages of one batch. Ours: maxMessageSize would let 180 000 empty ones through, which take a second."""
    store_reply_message_enable: bool = True
    """Keep the answers to requests on the cluster's reply topic."""
    start_accept_send_request_time_stamp: Ms = 0
    broker_fast_failure_enable: bool = True
    """Refuse sends with [TIMEOUT_CLEAN_QUEUE] at the limit of the next key."""
    wait_time_mills_in_send_queue: PositiveMs = 200
    """Time a send waited for its turn of the loop."""
    send_thread_pool_queue_capacity: PositiveCount = 100_000
    """Sends that wait for the log, beyond which others are refused with [OVERLOAD]. Java: 10 000 not yet begun."""
    max_parked_send_bytes: PositiveCount = 512 * 1024 * 1024
    """Bytes of the log that sends wait for, beyond which others are refused with [OVERLOAD]. Ours."""
    max_parked_send_millis: PositiveMs = 3000
    """Age of the oldest send that waits for the log, from which on others are refused with [REJECTREQUEST]: as long as
    RocketMQ's clients wait for an answer. Ours."""

    # limits far above normal use; Java has none
    max_topics: PositiveCount = 200_000
    max_groups: PositiveCount = 200_000
    unused_group_expire_time: Ms = 24 * 3600 * 1000
    """A group that a heartbeat created expires after so long without member, offset or retry; 0 = never. Ours."""
    max_consumer_offsets: PositiveCount = 2_000_000
    """Committed and pulled offsets, of all groups and queues together."""
    max_queue_locks: PositiveCount = 200_000
    max_subscriptions: PositiveCount = 1_000_000
    """Of all connected groups; one with long texts counts 1 more for every 1024 characters."""
    max_consumer_filter_size: PositiveCount = 4 * 1024 * 1024
    """Characters of all registered filters with their topics and groups, and 256 for each."""
    max_open_transactions: PositiveCount = 1_000_000
    """Half messages that wait for their end."""

    # queues locked by orderly consumers, replication
    rebalance_lock_max_live_time: PositiveMs = 60_000
    in_sync_replicas: PositiveCount = 1
    total_replicas: PositiveCount = 1
    slave_timeout: PositiveMs = 3000
    ha_listen_port: Port = 0
    """0 = listenPort + 1, which is what RocketMQ's start-up makes of its default."""
    ha_send_heartbeat_interval: PositiveMs = 5000
    ha_housekeeping_interval: PositiveMs = 20_000
    ha_transfer_batch_size: PositiveCount = 32 * 1024
    ha_max_gap_not_in_sync: Bytes = 256 * 1024 * 1024

    # transactions and queries
    transaction_check_interval: PositiveMs = 30_000
    transaction_check_max: PositiveCount = 15
    transaction_time_out: PositiveMs = 6000
    default_query_max_num: PositiveCount = 32
    max_msgs_num_batch: PositiveCount = 64
    config_black_list: str = "configBlackList;brokerConfigPath;rocketmqHome"

    @property
    def cluster_reply_topic(self) -> str:
        """Topic through which replies to requests travel in this cluster."""
        return self.broker_cluster_name + REPLY_TOPIC_SUFFIX

    @property
    def spoken_name(self) -> str:
        """What refusals call this broker: its address as in Java, its name while that is left to be found out."""
        return self.broker_ip1 or self.broker_name

    @property
    def is_slave(self) -> bool:
        """True when this broker only follows a master."""
        return self.broker_role == "SLAVE"

    @property
    def sync_flush(self) -> bool:
        """True when a send is answered only after its bytes are on disk."""
        return self.flush_disk_type == "SYNC_FLUSH"


RELOADABLE: Final = frozenset(
    {
        # permissions, creation, limits
        "brokerPermission",
        "autoCreateTopicEnable",
        "autoCreateSubscriptionGroup",
        "maxTopics",
        "maxGroups",
        "unusedGroupExpireTime",
        "maxConsumerOffsets",
        "maxQueueLocks",
        "maxOpenTransactions",
        "maxSubscriptions",
        "maxConsumerFilterSize",
        "maxHeldRequests",
        "maxConnections",
        "clientWriteBufferTotal",
        "serverChannelMaxIdleTimeSeconds",
        "startAcceptSendRequestTimeStamp",
        # load
        "brokerFastFailureEnable",
        "waitTimeMillsInSendQueue",
        "osPageCacheBusyTimeOutMills",
        "sendThreadPoolQueueCapacity",
        "maxParkedSendBytes",
        "maxParkedSendMillis",
        # retention
        "deleteWhen",
        "fileReservedTime",
        "cleanResourceInterval",
        "cleanFileForciblyEnable",
        "diskMaxUsedSpaceRatio",
        "diskSpaceCleanForciblyRatio",
        "diskSpaceWarningLevelRatio",
        "deleteFileBatchMax",
    }
)
"""Keys that may change while the broker runs. Whoever reads one of them has a method `configure`."""
