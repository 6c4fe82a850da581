"""Settings of light queues."""

from __future__ import annotations

from typing import Annotated

from bolide.declaration import DeclaredOptions, PositiveCount
from bolide.layout.shape import LIGHT_QUEUES


class LightQueueOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Limits of light queues."""

    enable_lmq_quota: Annotated[
        bool, LIGHT_QUEUES("Limit light queues to maxLmqConsumeQueueNum; false: to maxTopics.")
    ] = False
    max_lmq_consume_queue_num: Annotated[
        PositiveCount, LIGHT_QUEUES("Maximum number of light queues if enableLmqQuota is true.")
    ] = 20_000
