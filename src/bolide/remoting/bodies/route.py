"""Routes in responses of name servers (TopicRouteData.java, ClusterInfo.java, BrokerMemberGroup.java)."""

from __future__ import annotations

from msgspec import field

from bolide.remoting.bodies.base import Body, Int32


class QueueData(Body):
    """The queues of one topic at one broker. `perm` has the bits 4 (read), 2 (write) and 1 (inherit)."""

    broker_name: str = ""
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 = 0


class BrokerData(Body):
    """The addresses of one broker name: id 0 is the master, other ids are slaves."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[int, str] = field(default_factory=dict)
    zone_name: str | None = None
    enable_acting_master: bool = False


class TopicRouteData(Body):
    """Response to GET_ROUTEINFO_BY_TOPIC. Always writes the three collections, because 4.9 clients fail on null."""

    queue_datas: list[QueueData] = field(default_factory=list)
    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None


class ClusterInfo(Body):
    """Response to GET_BROKER_CLUSTER_INFO: brokers by name, broker names by cluster."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)


class BrokerMemberGroup(Body):
    """The live members of one broker name."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[int, str] = field(default_factory=dict)


class GetBrokerMemberGroupResponseBody(Body):
    """Response to GET_BROKER_MEMBER_GROUP (5.x)."""

    broker_member_group: BrokerMemberGroup | None = None
