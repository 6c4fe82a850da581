"""Administration of clusters: `Admin` has every call as a method, and the other names are types of its results."""

from bolide.access.policies import AclInfo, EntryInfo, PolicyInfo
from bolide.access.users import UserInfo
from bolide.admin.client import Admin
from bolide.admin.cluster import BrokerRow, MemberRow, ReplicaRow
from bolide.admin.groups import GroupProgress, QueueProgress
from bolide.admin.topics import QueueStats
from bolide.client.instance.routes import QueueInfo, TopicRoute
from bolide.remoting.bodies.clients import (
    Connection,
    ConsumeFromWhere,
    ConsumerConnection,
    ConsumeType,
    MessageModel,
    ProducerInfo,
    SubscriptionData,
)
from bolide.remoting.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from bolide.remoting.bodies.route import BrokerData, ClusterInfo
from bolide.remoting.bodies.running import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
)
from bolide.remoting.bodies.stats import BrokerStatsData, BrokerStatsItem
from bolide.remoting.bodies.topics import TopicConfig, TopicFilterType

__all__ = [
    "Admin",
    # clusters and brokers
    "ClusterInfo", "BrokerData", "BrokerRow", "ReplicaRow", "MemberRow", "BrokerStatsData", "BrokerStatsItem",
    # topics
    "TopicConfig", "TopicFilterType", "TopicRoute", "QueueInfo", "QueueStats",
    # groups and clients
    "SubscriptionGroupConfig", "GroupRetryPolicy", "GroupProgress", "QueueProgress",
    "Connection", "ConsumerConnection", "SubscriptionData", "ConsumeType", "MessageModel", "ConsumeFromWhere",
    "ProducerInfo", "ConsumerRunningInfo", "ProcessQueueInfo", "ConsumeStatus",
    "ConsumeMessageDirectlyResult", "CMResult",
    # access
    "UserInfo", "AclInfo", "PolicyInfo", "EntryInfo",
]  # fmt: skip
