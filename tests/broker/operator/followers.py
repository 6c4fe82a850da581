"""The services of a slave, with the tables that follow its master's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bolide.broker.consumers.assignments import AssignmentService
from bolide.broker.delay.delay_levels import DelayService
from bolide.broker.delay.followed_timer import FollowedTimer
from bolide.broker.delay.timer_metrics import TimerMetrics
from bolide.broker.operator.following import FollowedTables, Following, StoredTopics
from tests.broker.parts import NOW, Parts

FAR = 1_000
VERSION = {"counter": 7, "stateVersion": 1, "timestamp": 99}


class Followers(Parts):
    """The parts of a slave, and what follows."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, broker_role="SLAVE", broker_id=1, **settings)
        self.offsets.following = True
        self.dropped: list[str] = []
        self.dropped_older: list[tuple[str, int]] = []
        self.timer = FollowedTimer(self.effects)
        self.figures = TimerMetrics(NOW)
        self.assignments = AssignmentService(self.options, self.topics, self.groups, self.clients, self.effects)
        self.delay = DelayService((1000, 5000), self.writer, self.effects, NOW)
        self.ends: dict[tuple[str, int], int] = {}
        """Ends of queues by topic and queue id; all others end at `FAR`."""
        self.following = Following(
            FollowedTables(
                self.topics, self.groups, self.offsets, self.assignments, self.delay, self.figures, self.timer
            ),
            StoredTopics(
                self.dropped.append,
                lambda topic, queue_id: self.ends.get((topic, queue_id), FAR),
                lambda topic, offset: self.dropped_older.append((topic, offset)),
            ),
        )

    def take_offsets(self, table: dict[str, dict[int, int]]) -> None:
        list(self.following.take_offsets({"offsetTable": table, "dataVersion": VERSION}))

    def committed(self, group: str, topic: str = "T", queue_id: int = 0) -> int:
        return self.offsets.query(group, topic, queue_id)
