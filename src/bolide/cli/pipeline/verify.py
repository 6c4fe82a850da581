"""`bolide pipeline verify STORE`: checks a store in parallel on Spark."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from bolide.cli.contexts.options import Master
from bolide.cli.store.store_shape import store_shape
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.progress import shower


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(verify)


def verify(
    store: Path = typer.Argument(..., help="The store folder: the one that holds commitlog."),
    html: Path | None = typer.Option(None, "--html", help="Also write the report as one self-contained page."),
    config: Path | None = typer.Option(None, "--config", "-c", help="The broker.conf the store was written with."),
    limit: int = typer.Option(50, min=1, help="Findings to print at most; all are counted."),
    split_size: int = typer.Option(64, min=1, help="MiB of the log a task reads."),
    work_folder: Path | None = typer.Option(None, help="Folder for temporary part files; executors must see it."),
    master: str = Master,
    as_json: bool = JsonFlag,
) -> None:
    """Check every record, queue unit, index entry and group offset; exit code 1 if something is wrong, 4 if the check
    could not run."""
    with boundary(output.BROKEN):
        shape = store_shape(store, config, None)
        from bolide.spark.session.session import QUIET_START, job_context
        from bolide.spark.verify.verify_job import verify_on_spark
        from bolide.spark.verify.verify_page import verdict_page

        spark = job_context("bolide pipeline verify", master, QUIET_START)
        try:
            folder = None if work_folder is None else str(work_folder)
            verdict = verify_on_spark(
                spark, str(store), shape, split_size=split_size << 20, progress=shower(), work_folder=folder
            )
        finally:
            spark.stop()
        if html is not None:
            html.write_text(verdict_page(verdict), "utf-8")
        if as_json:
            output.print_json({"clean": verdict.clean, **asdict(verdict)})
            raise typer.Exit(output.DONE if verdict.clean else output.FAILED)
        if verdict.findings:
            root = f"{verdict.store}/"
            rows = [(one.path.removeprefix(root), one.position, one.sentence) for one in verdict.findings[:limit]]
            output.table(f"{verdict.count:,} findings in {verdict.store}", ("File", "Place", "Finding"), rows, False)
        for note in verdict.notes[:limit]:
            output.note(f"note: {output.printable(note)}")
        print(
            f"{'clean' if verdict.clean else f'{verdict.count:,} findings'}: {verdict.records:,} records, "
            f"{verdict.units:,} queue units, {verdict.ext_units:,} extension units, {verdict.index_entries:,} index "
            f"entries, {verdict.consumer_offsets:,} group offsets in {verdict.seconds:.1f} s"
        )
        raise typer.Exit(output.DONE if verdict.clean else output.FAILED)
