"""Settings of a broker's names, addresses, ports and folders."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from bolide.declaration import OURS, DeclaredOptions
from bolide.layout.names import REPLY_TOPIC_SUFFIX
from bolide.layout.shape import FILES
from bolide.remoting.listening import PLACE, BindAddress, ListenPort


class PlaceOptions(DeclaredOptions, frozen=True, kw_only=True):
    """The name, addresses and folders of one broker."""

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
        Literal["", "true", "false"],
        PLACE(
            "Whether to also listen on listenPort - 2, which does not serve pulls. Empty: only on a broker that "
            "serves its log to slaves or may act as a master, because RocketMQ's brokers use it. RocketMQ always "
            "listens there.",
            java=OURS,
        ),
    ] = ""
    store_path_root_dir: Annotated[str, FILES("Folder of the store.")] = "~/store"
    store_path_commit_log: Annotated[
        str, FILES("Only commitlog/ under the root is accepted.", java="commitlog/ under the root")
    ] = ""

    @property
    def cluster_reply_topic(self) -> str:
        """Topic for replies to requests in this cluster."""
        return self.broker_cluster_name + REPLY_TOPIC_SUFFIX

    @property
    def spoken_name(self) -> str:
        """Name of this broker in error messages: its address as in RocketMQ, or its name until the address is known."""
        return self.broker_ip1 or self.broker_name
