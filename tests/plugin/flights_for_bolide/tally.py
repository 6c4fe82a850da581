"""A sink: a file for each task, which says how many messages of which topics it was handed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any


class Tally:
    def __init__(self, task: Any) -> None:
        self.file = Path(task.only("folder")["folder"], f"{task.batch}-{task.partition}")
        self.topics: Counter[str] = Counter()

    def write(self, batch: Any) -> None:
        self.topics.update(batch.column("topic").to_pylist())

    def close(self) -> None:
        self.file.write_text("".join(f"{topic} {count}\n" for topic, count in self.topics.items()))

    def abort(self) -> None:
        self.topics.clear()
