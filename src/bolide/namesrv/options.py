"""What a name server can be told: one frozen struct with Java's keys and defaults (NamesrvConfig.java).

Field names are ours in snake case, the key in `namesrv.conf` is Java's. Keys of Java's thread pools and queues have no
counterpart, since services run on one thread. Where a default differs from Java's the line says so.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

PositiveMs = Annotated[int, Meta(ge=1, le=86_400_000 * 366, extra={"unit": "ms"})]
Port = Annotated[int, Meta(ge=0, le=65535, extra={"unit": "port"})]
PositiveCount = Annotated[int, Meta(ge=1, le=1 << 31, extra={"unit": "count"})]


class NamesrvOptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything a name server is told at start. Times in ms."""

    # where
    bind_address: str = "127.0.0.1"
    """Address to listen on. Java binds 0.0.0.0; here a listener is on loopback unless told otherwise."""
    listen_port: Port = 9876
    """0 picks a free port."""
    rocketmq_home: str = ""
    kv_config_path: str = ""
    """File of the key and value configuration; "" = kvConfig.json in the folder the node chooses."""
    config_store_path: str = ""
    """File of what code 318 changes, where the name server is started without one; "" = namesrv.conf in the folder the
    node chooses. It is read at the next start."""

    # what it answers
    product_env_name: str = "center"
    cluster_test: bool = False
    order_message_enable: bool = False
    """Fill orderTopicConf of routes from the namespace ORDER_TOPIC_CONFIG."""
    return_order_topic_config_to_broker: bool = True
    enable_topic_list: bool = True
    enable_all_topic_list: bool = True
    support_acting_master: bool = False
    """Show the smallest slave as master 0 while a broker that allows it has none."""
    delete_topic_with_broker_registration: bool = False
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"
    """Keys code 318 must not change, split by ';'. rocketmqHome and the listener are never changed either."""

    need_wait_for_service: bool = False
    """Give no routes before `wait_seconds_for_service`: until then not all brokers may have registered."""
    wait_seconds_for_service: Annotated[int, Meta(ge=0, le=86_400, extra={"unit": "s"})] = 45

    # who lives
    scan_not_active_broker_interval: PositiveMs = 5000
    broker_channel_expired_time: PositiveMs = 120_000
    """Ms without a sign of life after which a broker that named no time of its own is dropped. A constant in Java."""

    # connections
    max_connections: PositiveCount = 20_000
    server_channel_max_idle_time_seconds: PositiveCount = 120
    max_unfinished_bytes: PositiveCount = 256 * 1024 * 1024
    """Bytes of unfinished frames of all connections; beyond it the connection with the oldest is closed. Ours."""
    max_frame_seconds: PositiveCount = 120
    """A connection whose frame takes longer than this is closed. Ours."""

    # limits far above normal use; Java has none
    max_kv_config_bytes: PositiveCount = 4 * 1024 * 1024
    """Characters of all namespaces, keys and values (codes 100 and 101), and 32 for each entry. Each change writes all
    of them."""
    max_brokers: PositiveCount = 10_000
    """Addresses of brokers, and names of brokers in all clusters."""
    max_topic_entries: PositiveCount = 2_000_000
    """Topics of all brokers: one that two brokers have counts twice."""

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


FIXED_KEYS: Final = frozenset(
    {
        "rocketmqHome",
        "bindAddress",
        "listenPort",
        "tlsMode",
        "tlsCertPath",
        "tlsKeyPath",
        "tlsKeyPassword",
        "tlsTrustCertPath",
        "tlsNeedClientAuth",
    }
)
"""Keys that are read at the start only."""


class Settings:
    """The options in force: replaced as a whole when code 318 changes some."""

    def __init__(self, options: NamesrvOptions) -> None:
        self.options = options

    def as_texts(self) -> dict[str, str]:
        """Every key with its value, as Java's properties text has them."""
        values: dict[str, object] = msgspec.to_builtins(self.options)
        return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}

    def shown_texts(self) -> dict[str, str]:
        """`as_texts` for peers: of a password only that there is one."""
        texts = self.as_texts()
        if texts["tlsKeyPassword"]:
            texts["tlsKeyPassword"] = "******"
        return texts

    def black_list(self) -> frozenset[str]:
        """The keys that code 318 refuses to change."""
        return FIXED_KEYS | {key.strip() for key in self.options.config_black_list.split(";") if key.strip()}
