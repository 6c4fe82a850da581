"""Settings of consumer groups: their members, offsets and queue locks."""

from __future__ import annotations

from typing import Annotated, Final

from bolide.declaration import OURS, DeclaredOptions, PositiveCount, PositiveMs, Section

GROUPS: Final = Section("Consumers")


class ConsumerOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Members, offsets and queue locks."""

    notify_consumer_ids_changed_enable: Annotated[
        bool, GROUPS("Notify the members of a group when one joins or leaves.")
    ] = True
    flush_consumer_offset_interval: Annotated[PositiveMs, GROUPS("Time between writes of committed offsets.")] = 5000
    rebalance_lock_max_live_time: Annotated[
        PositiveMs, GROUPS("Time after which the queue lock of an orderly consumer expires.", java=OURS)
    ] = 60_000
    max_consumer_offsets: Annotated[
        PositiveCount, GROUPS("Maximum number of committed offsets of all groups.", live=True, java=OURS)
    ] = 2_000_000
    max_queue_locks: Annotated[
        PositiveCount, GROUPS("Maximum number of queue locks of all groups.", live=True, java=OURS)
    ] = 200_000
    max_subscriptions: Annotated[
        PositiveCount,
        GROUPS(
            "Maximum subscriptions of all connected groups; a subscription adds one per 1024 of its characters.",
            live=True,
            java=OURS,
        ),
    ] = 1_000_000
