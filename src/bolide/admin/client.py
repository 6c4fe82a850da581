"""Admin: every administrative call on one object, combined from one class per noun."""

from __future__ import annotations

from bolide.admin.access import AccessCalls
from bolide.admin.cluster import ClusterCalls
from bolide.admin.groups import GroupCalls
from bolide.admin.offsets import OffsetCalls
from bolide.admin.topics import TopicCalls
from bolide.admin.waiting import WaitingCalls
from bolide.client.messages.checked import documented


@documented
class Admin(TopicCalls, GroupCalls, OffsetCalls, WaitingCalls, ClusterCalls, AccessCalls):
    """Administers clusters through their name servers. ``async with Admin("127.0.0.1:9876") as admin: ...``

    Raises the client's errors: `ResponseError` (with the broker's code and remark), `TopicNotFound`, `ConnectionLost`,
    `RequestTimeout`.
    """
