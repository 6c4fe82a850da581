"""The newest offsets of a stream's queues, queried only as often as an idle query needs."""

from __future__ import annotations

import time
from typing import Final

from bolide.spark.source.batch_plan import Newest
from bolide.spark.source.cluster import Cluster

ASK_INTERVAL_S: Final = 0.1
ASK_SHARE: Final = 4
"""An idle stream waits this multiple of the duration of its last requests."""


class NewestOffsets:
    """Queries brokers for the newest offsets. An idle stream calls it every 10 ms.

    Queries brokers at most ten times per second, and less often if many queues make a query slow.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ask_at = 0.0

    def ask(self) -> Newest:
        """Return the ends of the selected queues. Waits until the next query is allowed. Raises `ClusterUnavailable` if
        brokers do not respond."""
        wait = self._ask_at - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        begin = time.monotonic()
        ends = self._cluster.latest(self._cluster.selected(tolerant=True))
        masters = frozenset(filter(self._cluster.master_answered, {queue.broker for queue in ends}))
        now = time.monotonic()
        self._ask_at = now + max(ASK_INTERVAL_S, ASK_SHARE * (now - begin))
        return Newest(ends, masters)

    def hurry(self) -> None:
        """Let the next `ask` query immediately. Called after a batch."""
        self._ask_at = 0.0
