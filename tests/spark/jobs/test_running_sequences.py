"""One random-looking sequence in a real session: an archive interrupted and run twice at once, and a redrive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proof.sequences.brokers import Brokers
from proof.sequences.sessions import Session
from proof.sequences.spark_runs import SparkRuns
from proof.sequences.steps import Step, listen
from proof.sequences.topic_world import TopicWorld

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    """Two brokers of Bolide."""
    made = Brokers.of(tmp_path / "brokers", ("broker-a", "broker-b"), 1 << 20)
    for server in made.servers:
        server.start()
    yield made
    made.close()


def test_jobs_in_a_session(spark: Any, brokers: Brokers, tmp_path: Path) -> None:
    session = Session()
    session.use(spark)
    runs = SparkRuns(brokers, "T", tmp_path, 1, session)
    world = TopicWorld(brokers, "T", runs)
    names = ("create", "send", "interrupted", "send", "poison", "twice", "redrive")
    with listen():
        said = [world.do(Step(name, (9, 1, 1, 4, 2, 3))) for name in names]
        said.append(world.finish())
    assert said[2].startswith("archive, interrupted after a batch: ")
    assert said[5].startswith("two archives at once, ")
    assert said[6] == "redrive run twice at once: 3 messages in D-T"
    assert said[7] == "spark.read: 20 rows"
