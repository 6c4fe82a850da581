"""Limits of batches for jobs that end by themselves, which Spark 4.0 and 4.1 cannot keep (docs/spark.md)."""

from __future__ import annotations

from bolide.spark.spark_versions import PASSES_LIMITS


def batches_of(rows: int) -> dict[str, str]:
    """Return the option for batches of so many rows, or none if this Spark has one batch a run."""
    return {"maxOffsetsPerTrigger": str(rows)} if PASSES_LIMITS else {}
