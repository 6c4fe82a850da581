"""`bolide pipeline dispatch STORE`: jobs over whole stores, on Spark.

Exit codes: 0 done, 1 it could not be done (the store is as before), 2 wrong usage.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bolide.cli import output
from bolide.cli.output import JsonFlag, boundary
from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.layout.shape import StoreShape
    from bolide.spark.dispatch_job import Progress

app = typer.Typer()

_SHOWN = 20


@app.callback()
def pipeline() -> None:
    """Jobs over whole stores, on Spark."""


@app.command()
def dispatch(
    store: Path = typer.Argument(..., help="The store folder: the one that holds commitlog."),
    out: Path | None = typer.Option(None, help="Where consumequeue, index and checkpoint go; not there yet, or empty."),
    in_place: bool = typer.Option(False, "--in-place", help="Replace those of the store itself, all or none."),
    config: Path | None = typer.Option(None, "--config", "-c", help="The broker.conf the store was written with."),
    store_version: str | None = typer.Option(None, help="5.5 or 4.9: whose index rules; default as in broker.conf."),
    skip_corrupt: bool = typer.Option(False, help="Go on where the log holds bytes that are no record, and say where."),
    split_size: int = typer.Option(64, min=1, help="MiB of the log a task reads."),
    master: str = typer.Option("local[*]", help="Spark's master; on a cluster it must see the store's path."),
    as_json: bool = JsonFlag,
) -> None:
    """Rebuild queues, extension files, index and checkpoint from the CommitLog alone, with no broker running."""
    with boundary():
        if (out is None) != in_place:
            raise ConfigError("say where the result goes: either --out DIR or --in-place")
        shape = _shape(store, config, store_version)
        from bolide.spark.dispatch_job import dispatch_store
        from bolide.spark.session import job_session

        spark = job_session("bolide pipeline dispatch", master)
        try:
            report = dispatch_store(
                spark, str(store), shape, None if out is None else str(out), skip_corrupt, split_size << 20, _shower()
            )
        finally:
            spark.stop()
        if as_json:
            output.print_json(asdict(report))
            return
        for bad in report.bad[:_SHOWN]:
            output.note(f"note: {bad.path}: {bad.reason}, {bad.size:,} bytes at physical offset {bad.physical_offset}")
        for skip in report.skipped[:_SHOWN]:
            output.note(f"note: record at physical offset {skip.physical_offset}: {skip.reason}")
        if report.late_filters:
            names = ", ".join(output.printable(name) for name in report.late_filters)
            output.note(f"note: filters younger than the log have bits in units older than they: {names}")
        print(
            f"{report.records:,} records became {report.units:,} units of {report.queues:,} queues and "
            f"{report.index_entries:,} index entries in {report.index_files:,} files in {report.seconds:.1f} s "
            f"({report.records / max(report.seconds, 1e-9):,.0f} records/s); bad places: {len(report.bad):,}, "
            f"records skipped: {len(report.skipped):,}"
        )


def _shape(store: Path, config: Path | None, version: str | None) -> StoreShape:
    """The store's shape: of its broker.conf, else of its files' sizes and RocketMQ's defaults."""
    from bolide.layout.shape import StoreShape
    from bolide.node.config import read_conf
    from bolide.store.files import RealFiles
    from bolide.store.inspect import NoStore, shape_of

    if version not in (None, "5.5", "4.9"):
        raise ConfigError(f"--store-version {version} is neither 5.5 nor 4.9")
    try:
        # Files that are there are not compared with a given broker.conf: they may be what is broken.
        shape = (
            shape_of(RealFiles(), str(store), None)
            if config is None
            else StoreShape.from_broker_conf(read_conf(str(config)))
        )
    except NoStore as error:
        output.fail(str(error), output.USAGE)
    return shape if version is None else replace(shape, store_version="4.9" if version == "4.9" else "5.5")


def _shower() -> Callable[[Progress], None]:
    """Shows progress on standard error: one line that is written over on a terminal, else a line every ten seconds."""
    terminal = sys.stderr.isatty()
    stage, second = "", -10.0

    def show(now: Progress) -> None:
        nonlocal stage, second
        finished = now.done >= now.total
        if not terminal and not finished and now.stage == stage and now.seconds < second + 10:
            return
        stage, second = now.stage, now.seconds
        if now.stage == "read":
            text = f"reading the log: {now.done / 1e6:,.0f} of {now.total / 1e6:,.0f} MB, {now.rate / 1e6:,.0f} MB/s"
        else:
            text = f"writing files: {now.done:,} of {now.total:,}, {now.rate:,.0f}/s"
        text += "" if finished else f", {now.seconds_left:,.0f} s left" if now.rate else ""
        sys.stderr.write(f"\r{text}\x1b[K" + ("\n" if finished else "") if terminal else f"{text}\n")
        sys.stderr.flush()

    return show
