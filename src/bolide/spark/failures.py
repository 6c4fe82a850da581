"""What Spark reports of a failed job, as one sentence."""

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
"""What Spark puts after a sentence."""


class JobFailed(LocalError):
    """Spark gave a job up; the text is the reason, without Spark's traces."""

    unreachable = False
    """Whether the reason is that nobody answered."""


@contextmanager
def sentences() -> Iterator[None]:
    """What Spark throws in the block becomes a JobFailed."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise job_failed(error) from None


def job_failed(error: Exception) -> JobFailed:
    """The sentence for what Spark reports: ours where one of our errors is in its text, else the innermost reason."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        kind, sentence = ours[-1]
        failed = JobFailed(sentence)
        failed.unreachable = kind == ClusterUnavailable.__name__
        return failed
    reasons = _ANY.findall(text) or [text.strip().split("\n")[0]]
    return JobFailed(f"Spark gave the job up: {_FOR_PROGRAMS.sub('', reasons[-1])}")
