"""What one of Spark's Python workers does once, behind its first task of ours, for the sake of the next ones."""

from __future__ import annotations

import gc
from typing import Final

_settled: Final[list[bool]] = []


def settle() -> None:
    """Take what is loaded by now out of the garbage collector's sight.

    A worker is kept for further tasks, and Spark lets it collect garbage behind each: to go through the 80,000 objects
    of pyspark, pandas and pyarrow costs 36 ms a time, as much as reading 100,000 records. Elsewhere nothing happens.
    """
    from pyspark import TaskContext

    if not _settled and TaskContext.get() is not None:
        _settled.append(True)
        gc.freeze()
