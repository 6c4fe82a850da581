"""The sentence that is left of what Spark throws."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bolide.spark.failures import job_failed
from bolide.spark.jobs.running import COUNTED, OFFSETS_PER_BATCH, Seen, stream_options

OURS = """[PYTHON_DATA_SOURCE_ERROR] Failed when partitions: Traceback (most recent call last):
  File "source.py", line 1, in partitions
bolide.spark.errors.{kind}: {sentence}
. SQLSTATE: 38000"""


@pytest.mark.parametrize(("kind", "unreachable"), [("ClusterUnavailable", True), ("OptionError", False)])
def test_our_sentence_and_whether_anybody_answered(kind: str, unreachable: bool) -> None:
    failed = job_failed(RuntimeError(OURS.format(kind=kind, sentence="broker b at h:1 is away")))
    assert str(failed) == "broker b at h:1 is away"
    assert failed.unreachable is unreachable


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[NO_PATH] Path does not exist: file:/x. SQLSTATE: 42K03", "[NO_PATH] Path does not exist: file:/x"),
        ("gone. SQLSTATE: 42703; line 1 pos 0;\n'Filter ('x)\n+- Relation", "gone"),
        ("job aborted\norg.apache.spark.SparkException: no room\n\tat org.apache", "no room"),
        ("An error occurred while calling o7.start.\n: java.lang.LinkageError: other Spark\n\tat java", "other Spark"),
    ],
)  # fmt: skip
def test_the_innermost_reason_of_spark_without_its_codes(text: str, sentence: str) -> None:
    assert str(job_failed(RuntimeError(text))) == f"Spark gave up the job: {sentence}"


def report(batch: int, rows: int, passed: int) -> Any:
    metrics = {COUNTED: SimpleNamespace(rows=passed)}
    return SimpleNamespace(batchId=batch, numInputRows=rows, observedMetrics=metrics, sources=[])


@pytest.mark.parametrize(("total", "known", "done"), [(2000, True, 2000), (0, False, 12_000)])
def test_progress_counts_what_the_total_counts(total: int, known: bool, done: int) -> None:
    seen = Seen(total, known)
    query: Any = SimpleNamespace(recentProgress=[report(0, 7000, 1500)])
    seen.look(query)
    query.recentProgress.append(report(1, 5000, 500))
    seen.look(query)
    assert (seen.done, seen.passed, seen.batches) == (done, 2000, 2)


def test_a_job_begins_with_the_oldest_message_in_batches_that_show_progress() -> None:
    made = stream_options({"subscribe": "T"})
    assert made == {"subscribe": "T", "startingoffsets": "earliest", "maxoffsetspertrigger": str(OFFSETS_PER_BATCH)}
    given = {"startingOffsetsByTimestamp": "{}", "maxOffsetsPerTrigger": "25"}
    assert stream_options(given) == {name.lower(): value for name, value in given.items()}
