"""What producers, consumers and the admin object of one process share: where the name servers are and who we are."""

from __future__ import annotations

import ssl as ssl_module
from dataclasses import dataclass, field
from typing import Final, TypedDict

from bolide.client.instance.environment_credentials import environment_credentials
from bolide.client.instance.environment_tls import environment_ssl
from bolide.client.instance.name_servers import LOCAL_NAMESRV, configured_namesrv
from bolide.client.instance.unique_id import default_client_id
from bolide.client.messages.arguments import check_method, check_seconds
from bolide.client.messages.hooks import AclHook, RpcHook, UnitHook
from bolide.client.messages.namespace import check_namespace
from bolide.errors import ArgumentError
from bolide.world.contract import World
from bolide.world.real import THE_WORLD

DEFAULT_NAMESRV: Final = ""
"""Says that the environment names the name servers (NAMESRV_ADDR), and without it 127.0.0.1:9876."""

MAX_INTERVAL: Final = 600.0
"""Upper limit of the intervals in seconds. RocketMQ's clients take ms, and 30000 would otherwise mean 8 hours."""


class ConnectionOptions(TypedDict, total=False):
    """Keywords that every producer, consumer and admin object takes for its connections; all may be left out.

    `instance_name` (``"DEFAULT"``) and the machine's address make the client id, unless `client_id` is given whole;
    clients with equal options share connections. `access_key` and `secret_key` sign requests, or without them the
    variables BOLIDE_ACCESS_KEY and BOLIDE_SECRET_KEY. `hooks` see each request and answer, in their order; `ssl`
    encrypts every connection; `binary_header` encodes requests in RocketMQ's binary form instead of JSON (Java's
    ``rocketmq.serialize.type=ROCKETMQ``); `namespace` goes before the names of topics and groups, so that users of one
    cluster do not meet; `unit` names the unit a client works for (Java's unitName with unitMode): what it creates is
    marked so, and the id ends with it. Times are seconds: `heartbeat_interval` and
    `route_interval` separate two heartbeats and two requests for all routes, `persist_interval` two writes of a
    consumer's offsets, and `call_timeout` bounds a connection attempt and each request without a timeout. `world`
    supplies time, random numbers, threads, sockets and files; simulations replace it.
    """

    instance_name: str
    client_id: str | None
    access_key: str
    secret_key: str
    hooks: tuple[RpcHook, ...]
    ssl: ssl_module.SSLContext | None
    binary_header: bool
    namespace: str
    unit: str
    heartbeat_interval: float
    route_interval: float
    persist_interval: float
    call_timeout: float
    world: World


@dataclass(frozen=True)
class ClientOptions:
    """Settings of a `ClientInstance`. Two clients with equal options share one instance; times are seconds."""

    namesrv: tuple[str, ...] = (LOCAL_NAMESRV,)
    client_id: str = field(default_factory=default_client_id)
    hooks: tuple[RpcHook, ...] = ()
    ssl: ssl_module.SSLContext | None = None
    binary_header: bool = False
    namespace: str = ""
    unit: str = ""
    world: World = THE_WORLD
    heartbeat_interval: float = 30.0
    route_interval: float = 30.0
    # Each consumer writes its own offsets, so consumers with different intervals can share an instance.
    persist_interval: float = field(default=5.0, compare=False)
    rebalance_interval: float = 20.0
    call_timeout: float = 3.0

    @classmethod
    def of(
        cls,
        namesrv: str,
        *,
        fixed_name: bool = False,
        instance_name: str = "DEFAULT",
        client_id: str | None = None,
        access_key: str = "",
        secret_key: str = "",
        hooks: tuple[RpcHook, ...] = (),
        ssl: ssl_module.SSLContext | None = None,
        binary_header: bool = False,
        namespace: str = "",
        unit: str = "",
        heartbeat_interval: float = 30.0,
        route_interval: float = 30.0,
        persist_interval: float = 5.0,
        call_timeout: float = 3.0,
        world: World = THE_WORLD,
    ) -> ClientOptions:
        """Options from what a user writes: ``host:port;host:port`` or the URL of an address server, and any of
        `ConnectionOptions`. Raises `ArgumentError`, and `ConfigError` for what the environment says.

        `fixed_name` keeps DEFAULT in the client id instead of the process: a broadcasting consumer finds its file
        of offsets again after a restart, as Java's does.
        """
        for hook in hooks:
            check_method("hooks", hook, "before", "call")
            check_method("hooks", hook, "after", "call, answer")
        if unit:
            hooks = (UnitHook(), *hooks)
        if bool(access_key) != bool(secret_key):
            missing = "secret_key" if access_key else "access_key"
            raise ArgumentError(
                f"access_key and secret_key go together, {missing} is missing: give both or neither", missing
            )
        if not access_key and not any(isinstance(hook, AclHook) for hook in hooks):
            access_key, secret_key = environment_credentials()
        if access_key:
            hooks = (*hooks, AclHook(access_key, secret_key))
        return cls(
            namesrv=configured_namesrv(namesrv, unit),
            client_id=client_id
            or (f"{world.own_ip()}@{instance_name}" if fixed_name else default_client_id(instance_name, world))
            + (f"@{unit}" if unit else ""),
            hooks=hooks,
            ssl=ssl or environment_ssl(),
            binary_header=binary_header,
            namespace=check_namespace(namespace),
            unit=unit,
            world=world,
            heartbeat_interval=check_seconds("heartbeat_interval", heartbeat_interval, most=MAX_INTERVAL),
            route_interval=check_seconds("route_interval", route_interval, most=MAX_INTERVAL),
            persist_interval=check_seconds("persist_interval", persist_interval, most=MAX_INTERVAL),
            call_timeout=check_seconds("call_timeout", call_timeout, most=MAX_INTERVAL),
        )
