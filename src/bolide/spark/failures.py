"""Spark's report of a failed job, as one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bolide.errors import LocalError
from bolide.spark.errors import ClusterUnavailable

_OURS: Final = re.compile(r"^(?:.*\s)?bolide\.[\w.]*errors\.(\w+): (.+)$", re.MULTILINE)
_ANY: Final = re.compile(r"^(?:: )?[\w.]+(?:Error|Exception): (.+)$", re.MULTILINE)
_FOR_PROGRAMS: Final = re.compile(r"\.? SQLSTATE: \w{5}.*$")
"""Suffix that Spark appends to a sentence."""


class JobFailed(LocalError):
    """Spark aborted a job. The text is the reason, without stack traces."""

    unreachable = False
    """Whether the reason is that no server responded."""


@contextmanager
def sentences() -> Iterator[None]:
    """Convert Spark's errors in the block to `JobFailed`."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise job_failed(error) from None


def job_failed(error: Exception) -> JobFailed:
    """Return the error for Spark's report: Bolide's error if there is one in its text, otherwise the innermost
    reason."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        kind, sentence = ours[-1]
        failed = JobFailed(sentence)
        failed.unreachable = kind == ClusterUnavailable.__name__
        return failed
    reasons = _ANY.findall(text) or [text.strip().split("\n")[0]]
    return JobFailed(f"Spark gave up the job: {_FOR_PROGRAMS.sub('', reasons[-1])}")
