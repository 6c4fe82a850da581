"""Options shared by producers, consumers and admin objects: name servers, client id and connections."""

from __future__ import annotations

import ssl as ssl_module
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, TypedDict

from bolide.client.instance.environment_credentials import environment_credentials
from bolide.client.instance.environment_tls import environment_ssl
from bolide.client.instance.name_servers import LOCAL_NAMESRV, configured_namesrv
from bolide.client.instance.unique_id import default_client_id
from bolide.client.messages.arguments import check_group, check_method
from bolide.client.messages.checked import ANY, INTERVAL, Allowed, documented_fields
from bolide.client.messages.hooks import AclHook, RpcHook, UnitHook
from bolide.client.messages.namespace import NAMESPACE
from bolide.errors import ArgumentError
from bolide.world.contract import World
from bolide.world.real import THE_WORLD

DEFAULT_NAMESRV: Final = ""
"""The name servers of the environment (NAMESRV_ADDR), or 127.0.0.1:9876 without them."""

NAMESRV: Final = Allowed("`host:port`, several in a list or separated by `;`, or an `http://` address")
GROUP: Final = Allowed("letters, digits and `%\\|-_`, 127 at most", lambda name, value: check_group(value))

Group = Annotated[str, GROUP("Name of the group.")]
NameServers = Annotated[
    str | Sequence[str],
    NAMESRV(
        "Name servers, or a server that lists them. Empty: BOLIDE_NAMESRV_ADDR, ROCKETMQ_NAMESRV_ADDR or NAMESRV_ADDR,"
        " then 127.0.0.1:9876."
    ),
]


@documented_fields
class ConnectionOptions(TypedDict, total=False):
    """Keywords of every producer, consumer and admin object for its connections. All are optional.

    Clients with equal options share connections.
    """

    instance_name: Annotated[
        str,
        ANY("Part of the client id, DEFAULT by default; two members of one group in a process need different ones."),
    ]
    client_id: Annotated[str | None, ANY("The whole client id, instead of `address@instance`.")]
    access_key: Annotated[str, ANY("Signs every request, with `secret_key`. Empty: BOLIDE_ACCESS_KEY.")]
    secret_key: Annotated[str, ANY("Empty: BOLIDE_SECRET_KEY.")]
    hooks: Annotated[
        tuple[RpcHook, ...],
        ANY("Called with each request and response, in their order; may add fields.", "`RpcHook` objects"),
    ]
    ssl: Annotated[
        ssl_module.SSLContext | None,
        ANY("Encrypts every connection. Left out: BOLIDE_TLS_ENABLE decides.", "an `ssl.SSLContext`"),
    ]
    binary_header: Annotated[
        bool, ANY("Encode requests in RocketMQ's binary form instead of JSON (Java's rocketmq.serialize.type).")
    ]
    namespace: Annotated[
        str,
        NAMESPACE(
            "Precedes the names of topics and groups, so that users of one cluster do not meet. An admin object uses"
            " whole names instead."
        ),
    ]
    unit: Annotated[str, ANY("The unit that the client works for (Java's unitName with unitMode).")]
    heartbeat_interval: Annotated[
        float,
        INTERVAL(
            "Time between two heartbeats to each broker, 30 by default (Java's heartbeatBrokerInterval). Brokers drop a"
            " client after 120 s without one."
        ),
    ]
    route_interval: Annotated[
        float,
        INTERVAL(
            "Time between two requests to the name servers for all routes, 30 by default (Java's"
            " pollNameServerInterval)."
        ),
    ]
    persist_interval: Annotated[
        float,
        INTERVAL(
            "Time between two writes of a consumer's offsets, 5 by default (Java's persistConsumerOffsetInterval)."
        ),
    ]
    rebalance_interval: Annotated[
        float,
        INTERVAL(
            "Time between two rebalances of a consumer, 20 by default (Java's rocketmq.client.rebalance.waitInterval)."
            " A change of the group that a broker reports causes one immediately."
        ),
    ]
    call_timeout: Annotated[
        float,
        INTERVAL(
            "Limit of a connection attempt, and of a request without a `timeout` argument, 3 by default (Java's"
            " mqClientApiTimeout)."
        ),
    ]
    world: Annotated[
        World, ANY("Time, random numbers, threads, sockets and files: the machine, or a simulation.", "a `World`")
    ]


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
    # Each consumer stores its offsets and rebalances itself, so consumers with different intervals share an instance.
    persist_interval: float = field(default=5.0, compare=False)
    rebalance_interval: float = field(default=20.0, compare=False)
    call_timeout: float = 3.0

    @classmethod
    def of(
        cls,
        namesrv: str | Sequence[str],
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
        rebalance_interval: float = 20.0,
        call_timeout: float = 3.0,
        world: World = THE_WORLD,
    ) -> ClientOptions:
        """Return the options for a user's arguments: name servers, and any of `ConnectionOptions`.

        The constructors of the clients have checked types and ranges. Raises `ArgumentError` for other errors, and
        `ConfigError` if the environment is wrong.

        With `fixed_name`, the client id contains `instance_name` even if it is DEFAULT, and not the process. So a
        broadcasting consumer finds its offset file after a restart, as in Java.
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
            namespace=namespace,
            unit=unit,
            world=world,
            heartbeat_interval=heartbeat_interval,
            route_interval=route_interval,
            persist_interval=persist_interval,
            rebalance_interval=rebalance_interval,
            call_timeout=call_timeout,
        )
