"""Settings of permissions, and of topics and groups that requests create."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from bolide.declaration import OURS, DeclaredOptions, Ms, PositiveCount, Section
from bolide.layout.names import TRACE_TOPIC

CREATION: Final = Section("Permissions and implicit creation")


class TableOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Permissions of the broker, topics and groups that requests create, and limits of both tables."""

    broker_permission: Annotated[
        int,
        Meta(ge=0, le=7),
        CREATION("Permission of clients: the sum of 4 (read) and 2 (write).", live=True),
    ] = 6
    auto_create_topic_enable: Annotated[
        bool, CREATION("A send creates its topic from the topic it names as default.", live=True)
    ] = True
    auto_create_subscription_group: Annotated[
        bool, CREATION("The first request of a consumer group creates it.", live=True)
    ] = True
    default_topic_queue_nums: Annotated[
        int, Meta(ge=1, le=65_536), CREATION("Queues of an implicitly created topic.")
    ] = 8
    cluster_topic_enable: Annotated[bool, CREATION("Keep a topic named after the cluster.")] = True
    broker_topic_enable: Annotated[bool, CREATION("Keep a topic named after the broker.")] = True
    trace_topic_enable: Annotated[bool, CREATION("Keep the topic of message traces.")] = False
    msg_trace_topic_name: Annotated[str, CREATION("Name of the topic of message traces.")] = TRACE_TOPIC
    trace_on: Annotated[bool, CREATION("Enable tracing in producers.")] = True
    enable_mixed_message_type: Annotated[bool, CREATION("Topics may have the attribute message.type=MIXED.")] = False
    enable_split_metadata: Annotated[
        bool, CREATION("Send the tables of topics and groups in parts to a broker that requests parts.")
    ] = True
    split_metadata_size: Annotated[
        PositiveCount, CREATION("Topics or groups in each part of a table that is sent in parts.")
    ] = 2000
    max_topics: Annotated[
        PositiveCount, CREATION("Number of topics from which no further one is created.", live=True, java=OURS)
    ] = 200_000
    max_groups: Annotated[
        PositiveCount, CREATION("Number of groups from which no further one is created.", live=True, java=OURS)
    ] = 200_000
    unused_group_expire_time: Annotated[
        Ms,
        CREATION(
            "Remove an implicitly created group that has had no member, offset or retry for this time; 0: never.",
            live=True,
            java=OURS,
        ),
    ] = 24 * 3600 * 1000
