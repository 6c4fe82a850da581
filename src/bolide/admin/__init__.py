"""Administration of clusters: `Admin` has every call as a method, and the other names are types of its results."""

from bolide.access.policies import AclInfo, EntryInfo, PolicyInfo
from bolide.access.users import UserInfo
from bolide.admin.client import Admin
from bolide.admin.cluster import BrokerRow, MemberRow, ReplicaRow
from bolide.admin.groups import GroupProgress, QueueProgress
from bolide.admin.topics import QueueStats
from bolide.client.instance.routes import TopicRoute
from bolide.remoting.bodies.clients import Connection, ConsumerConnection, ProducerInfo
from bolide.remoting.bodies.groups import SubscriptionGroupConfig
from bolide.remoting.bodies.route import ClusterInfo
from bolide.remoting.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from bolide.remoting.bodies.stats import BrokerStatsData
from bolide.remoting.bodies.topics import TopicConfig

__all__ = [
    "Admin",
    # clusters and brokers
    "ClusterInfo", "BrokerRow", "ReplicaRow", "MemberRow", "BrokerStatsData",
    # topics
    "TopicConfig", "TopicRoute", "QueueStats",
    # groups and clients
    "SubscriptionGroupConfig", "GroupProgress", "QueueProgress", "Connection", "ConsumerConnection", "ProducerInfo",
    "ConsumerRunningInfo", "ConsumeMessageDirectlyResult",
    # access
    "UserInfo", "AclInfo", "PolicyInfo", "EntryInfo",
]  # fmt: skip
