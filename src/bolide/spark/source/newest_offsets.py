"""The newest offsets of a stream's queues, requested no more often than an idle query needs."""

from __future__ import annotations

import time
from typing import Final

from bolide.spark.source.batch_plan import Newest
from bolide.spark.source.cluster import Cluster

ASK_INTERVAL_S: Final = 0.1
ASK_SHARE: Final = 4
"""An idle stream waits this many times as long as its last requests took."""


class NewestOffsets:
    """Asks brokers for the newest offsets. An idle stream polls every 10 ms.

    Brokers are asked at most ten times a second, and less often if there are so many queues that it takes long.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ask_at = 0.0

    def ask(self) -> Newest:
        """The ends of the selected queues. Waits until brokers may be asked again. Raises ClusterUnavailable."""
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
        """Let the next `ask` not wait: there was a batch."""
        self._ask_at = 0.0
