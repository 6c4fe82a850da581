"""Data sources and jobs for Spark. Names are imported lazily, because executors also import this package."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bolide.job_progress import JobProgress
    from bolide.layout.shape import StoreShape
    from bolide.spark.dispatch.dispatch_job import DispatchReport, dispatch_store
    from bolide.spark.dispatch.dispatch_state import DerivedState
    from bolide.spark.dispatch.follow import Followed, follow_store
    from bolide.spark.failures import JobFailed
    from bolide.spark.jobs.archive import archive, read_back
    from bolide.spark.jobs.files import export_topic, import_files
    from bolide.spark.jobs.mirror import mirror, translate_offsets
    from bolide.spark.jobs.redrive import redrive
    from bolide.spark.jobs.replay import as_replay, replay
    from bolide.spark.jobs.running import JobResult
    from bolide.spark.jobs.stats import Count, Statistics, TopicStats, stats
    from bolide.spark.jobs.stats_report import stats_page
    from bolide.spark.jobs.template import write_template
    from bolide.spark.jobs.trace import trace_rows
    from bolide.spark.lag import LagListener, SourceLag
    from bolide.spark.reading import Read, read, read_stream
    from bolide.spark.session.progress import OnProgress
    from bolide.spark.verify.verdict import Verdict
    from bolide.spark.verify.verify_job import verify_on_spark

__all__ = [
    "Read", "read", "read_stream", "LagListener", "SourceLag",
    "JobFailed", "JobResult", "JobProgress", "OnProgress", "Statistics", "TopicStats", "Count", "archive", "as_replay",
    "export_topic", "import_files", "mirror", "read_back", "redrive", "replay", "stats", "stats_page", "trace_rows",
    "translate_offsets", "write_template",
    "dispatch_store", "follow_store", "verify_on_spark", "StoreShape", "DispatchReport", "DerivedState", "Followed",
    "Verdict",
]  # fmt: skip

_MODULES: Final = {
    "dispatch.dispatch_job": ("DispatchReport", "dispatch_store"),
    "dispatch.dispatch_state": ("DerivedState",),
    "dispatch.follow": ("Followed", "follow_store"),
    "session.progress": ("JobProgress", "OnProgress"),
    "verify.verdict": ("Verdict",),
    "verify.verify_job": ("verify_on_spark",),
    "reading": ("Read", "read", "read_stream"),
    "jobs.archive": ("archive", "read_back"),
    "jobs.files": ("export_topic", "import_files"),
    "jobs.mirror": ("mirror", "translate_offsets"),
    "jobs.redrive": ("redrive",),
    "jobs.replay": ("as_replay", "replay"),
    "failures": ("JobFailed",),
    "jobs.running": ("JobResult",),
    "jobs.stats": ("Count", "Statistics", "TopicStats", "stats"),
    "jobs.stats_report": ("stats_page",),
    "jobs.template": ("write_template",),
    "jobs.trace": ("trace_rows",),
    "lag": ("LagListener", "SourceLag"),
}


def __getattr__(name: str) -> Any:
    if name == "StoreShape":
        from bolide.layout.shape import StoreShape

        return StoreShape
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"bolide.spark.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
