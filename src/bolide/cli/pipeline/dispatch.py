"""`bolide pipeline dispatch STORE`: rebuilds the files derived from a store's log on Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bolide.cli.contexts.options import Master
from bolide.cli.store.store_shape import store_shape
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.progress import shower
from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.layout.shape import StoreShape
    from bolide.spark.dispatch.dispatch_job import DispatchReport

_SHOWN = 20


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(dispatch)


def dispatch(
    store: Path = typer.Argument(..., help="The store folder: the one that holds commitlog."),
    out: Path | None = typer.Option(None, help="Where consumequeue, index and checkpoint go; a new or empty folder."),
    in_place: bool = typer.Option(False, "--in-place", help="Replace the files of the store itself, all together."),
    update: bool = typer.Option(
        False, "--update", help=("Update the files in DIR with the messages appended since then.")
    ),
    follow: bool = typer.Option(False, "--follow", help="Update them as the store's broker writes, until stopped."),
    every: float = typer.Option(1.0, min=0.1, help="With --follow: seconds between two batches."),
    durable: str = typer.Option(
        "auto", help=("With --update or --follow: what to treat as durable: auto, confirm or flushed.")
    ),
    config: Path | None = typer.Option(None, "--config", "-c", help="The broker.conf the store was written with."),
    store_version: str | None = typer.Option(None, help="5.5 or 4.9: whose index rules; default as in broker.conf."),
    skip_corrupt: bool = typer.Option(False, help="Skip bytes in the log that are not a record, and report them."),
    split_size: int = typer.Option(64, min=1, help="MiB of the log a task reads."),
    master: str = Master,
    as_json: bool = JsonFlag,
) -> None:
    """Rebuild queues, extension files, index and checkpoint from the CommitLog, once or following a running broker."""
    with boundary():
        if (out is None) != in_place:
            raise ConfigError("say where the result goes: either --out DIR or --in-place")
        if (update or follow) and out is None:
            option = "--follow" if follow else "--update"
            raise ConfigError(f"{option} needs --out DIR: the files of the store itself belong to its broker")
        shape = store_shape(store, config, store_version)
        if update or follow:
            _update(store, shape, str(out), Updating(follow, every, durable, skip_corrupt), master, as_json)
            return
        from bolide.spark.dispatch.dispatch_job import dispatch_store
        from bolide.spark.session.session import QUIET_START, job_context

        spark = job_context("bolide pipeline dispatch", master, QUIET_START)
        try:
            target = None if out is None else str(out)
            report = dispatch_store(
                spark, str(store), shape, out=target, skip_corrupt=skip_corrupt, split_size=split_size << 20,
                progress=shower(),
            )  # fmt: skip
        finally:
            spark.stop()
        if as_json:
            output.print_json(asdict(report))
        else:
            _show(report)


def _show(report: DispatchReport) -> None:
    for bad in report.bad[:_SHOWN]:
        output.note(f"note: {bad.path}: {bad.reason}, {bad.size:,} bytes at physical offset {bad.physical_offset}")
    for skip in report.skipped[:_SHOWN]:
        output.note(f"note: record at physical offset {skip.physical_offset}: {skip.reason}")
    if report.late_filters:
        names = ", ".join(output.printable(name) for name in report.late_filters)
        output.note(f"note: filters registered after the first message also have bits in older units: {names}")
    print(
        f"{report.records:,} records became {report.units:,} units of {report.queues:,} queues and "
        f"{report.index_entries:,} index entries in {report.index_files:,} files in {report.seconds:.1f} s "
        f"({report.records / max(report.seconds, 1e-9):,.0f} records/s); bad places: {len(report.bad):,}, "
        f"records skipped: {len(report.skipped):,}"
    )


@dataclass(frozen=True)
class Updating:
    """Options for updating a folder; see `follow_store`."""

    follow: bool
    every: float
    durable: str
    skip_corrupt: bool


def _update(store: Path, shape: StoreShape, out: str, how: Updating, master: str, as_json: bool) -> None:
    from bolide.spark.dispatch.follow import Followed, follow_store
    from bolide.spark.session.session import QUIET_START, job_session

    def show(done: Followed) -> None:
        if as_json:
            output.print_json_line(asdict(done))
            return
        rate = done.records / max(done.seconds, 1e-9)
        odd = f", {done.skipped:,} out of sequence, {done.bad:,} bad places" if done.skipped or done.bad else ""
        output.note(f"up to {done.end_offset:,}: {done.records:,} records in {done.seconds:.2f} s, {rate:,.0f}/s{odd}")

    spark = job_session("bolide pipeline dispatch", master, settings=QUIET_START)
    try:
        output.note(f"following {store} into {out}" if how.follow else f"updating {out} from {store}")
        state = follow_store(
            spark, str(store), shape, out=out, follow=how.follow, skip_corrupt=how.skip_corrupt,
            seconds_between=how.every, durable=how.durable, on_batch=show,
        )  # fmt: skip
    finally:
        spark.stop()
    queues, entries = len(state.queues), state.entries
    output.note(
        f"stopped at physical offset {max(state.end_offset, 0):,}: {queues:,} queues, {entries:,} index entries"
    )
