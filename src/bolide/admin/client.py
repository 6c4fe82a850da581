"""Admin: every administrative call on one object, combined from one class per noun."""

from __future__ import annotations

from bolide.admin.cluster import Cluster
from bolide.admin.groups import Groups
from bolide.admin.messages import Messages
from bolide.admin.offsets import Offsets
from bolide.admin.topics import Topics


class Admin(Topics, Groups, Offsets, Messages, Cluster):
    """Administers clusters through their name servers. ``async with Admin("127.0.0.1:9876") as admin: ...``

    Failures are those of the client: `ResponseError` (with the broker's code and remark), `TopicNotFound`,
    `ConnectionLost`, `RequestTimeout`.
    """
