"""What `bolide bench spark` measures is what it says: every row is read, and the store it makes is a whole one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bolide.cli.bench.verbs import app
from bolide.layout.shape import StoreShape
from bolide.spark.bench.measure import LIMIT, MEASURES, Bench, stages
from bolide.spark.bench.store import QUEUES, make_store
from bolide.spark.store.store_source import RocketMQStoreDataSource
from bolide.spark.verify.verify_job import verify_with
from proof.sequences.in_process import InProcess

MESSAGES = 20_000
SEGMENT = 1 << 22


@pytest.fixture
def store(tmp_path: Path) -> Path:
    make_store(tmp_path / "store", MESSAGES, 128, SEGMENT)
    return tmp_path / "store"


def test_the_store_is_whole(store: Path) -> None:
    runner: Any = InProcess()
    shape = StoreShape(commit_log_segment_size=SEGMENT, index_slots=10, index_entries=10)
    verdict = verify_with(runner, str(store), shape)
    assert verdict.records == MESSAGES
    assert len(list((store / "commitlog").iterdir())) == verdict.log_files > 1
    assert len(verdict.queues) == QUEUES
    assert {row.records for row in verdict.queues} == {MESSAGES // QUEUES}
    # It has no queues and no index yet, and that is all there is to find.
    assert {one.sentence.split(" the last ")[0].split(" ends at ")[0] for one in verdict.findings} == {
        *(f"BenchSpark queue {number} does not have" for number in range(QUEUES)),
        "the index",
    }


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_rates_are_of_all_rows(spark: Any, store: Path) -> None:
    spark.dataSource.register(RocketMQStoreDataSource)
    bench = Bench(spark, 2, 128, MESSAGES, store)
    for name in (LIMIT, "offline", "sink", "live", "archive"):
        MEASURES[name](bench)
    assert [(figure.measure, figure.rows) for figure in bench.figures] == [
        (LIMIT, MESSAGES),
        ("offline source", MESSAGES),
    ]
    assert all(figure.rate > 0 for figure in bench.figures)
    assert spark.read.format("rocketmq-store").load(str(store)).count() == MESSAGES
    ready = spark.read.format("bolide-bench-ready").options(rows=MESSAGES, body=9, partitions=2).load()
    assert ready.selectExpr("count(*)", "max(length(body))").first() == (MESSAGES, 9)


def test_stages_are_timed_one_by_one(store: Path) -> None:
    found = stages(store)
    assert set(found) == {"offline source", "dispatch, first stage"}
    assert all(set(parts) >= {"read", "find records"} for parts in found.values())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--conf", "spark.ui.enabled"], "--conf spark.ui.enabled is not of the form NAME=VALUE"),
        (["--only", "limit,speed"], "--only speed is not a measure; use limit, offline"),
        (["--cores", "0"], "--cores 0 is not a list of whole numbers from 1"),
        (["--body", "a"], "--body a is not a list of whole numbers from 1"),
    ],
)
def test_wrong_usage_starts_nothing(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(app, ["spark", *arguments])
    assert result.exit_code == 2
    assert text in result.output
