"""Administration of clusters: every call as a method of one object."""

from bolide.admin.client import Admin
from bolide.admin.cluster import BrokerRow, ReplicaRow
from bolide.admin.groups import GroupProgress, QueueProgress
from bolide.admin.topics import QueueStats

__all__ = ["Admin", "BrokerRow", "GroupProgress", "QueueProgress", "QueueStats", "ReplicaRow"]
