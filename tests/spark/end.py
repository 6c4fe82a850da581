"""Waits for the end of a query that reads the messages that existed at its start, on every Spark."""

from __future__ import annotations

from typing import Any

from bolide.spark.ending_runs import ended
from proof.kit.waiting import wait_until


def read_everything(query: Any) -> None:
    """Wait for it. Raises the query's error."""
    wait_until(lambda: ended(query, 0.1, follow=False), "the query has read everything", 300)
