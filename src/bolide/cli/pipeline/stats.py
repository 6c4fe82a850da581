"""`bolide pipeline stats`: statistics of topics, a store or an archive."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path

import typer

from bolide.cli.contexts.options import Master, Namesrv
from bolide.cli.pipeline.run import Conf, SourceOption, Topics, Where
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.progress import shower


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(stats)


def stats(
    topics: str | None = Topics,
    namesrv: str = Namesrv,
    store: str | None = typer.Option(None, help="Instead of a cluster: a store folder."),
    archive: str | None = typer.Option(None, help="Instead of a cluster: a folder that archive wrote."),
    where: str | None = Where,
    step: int = typer.Option(0, min=0, help="Seconds per point in time; 0: chosen to fit."),
    html: Path | None = typer.Option(None, help="Also write a page with plots here."),
    option: list[str] = SourceOption,
    conf: list[str] = Conf,
    master: str = Master,
    as_json: bool = JsonFlag,
) -> None:
    """Count messages, sizes, rates and latencies by topic, tag, key and time."""
    with boundary():
        from bolide.cli.pipeline.run import batch_source, session
        from bolide.spark.jobs.stages import stages_shown
        from bolide.spark.jobs.stats_report import check_plots, stats_page

        if html is not None:
            check_plots()
        load = batch_source(namesrv, topics, store, archive, option)
        with session("stats", master, conf) as spark:
            from bolide.spark.jobs.stats import stats as run

            rows = load(spark)
            with stages_shown(spark, "counting", shower()):
                counted = run(rows.where(where) if where else rows, step)
        if html is not None:
            title = f"Messages of {store or archive or topics}"
            given = {"--store": store, "--archive": archive, "--where": where, "--step": str(step) if step else None}
            options = [word for name, value in given.items() if value for word in (name, value)]
            command = shlex.join(["bolide", "pipeline", "stats", *filter(None, [topics]), *options])
            html.write_text(stats_page(counted, title, command), encoding="utf-8")
            output.note(f"page: {html}")
        if as_json:
            output.print_json(asdict(counted))
            return
        shown = [
            (
                one.topic, one.messages, one.bytes, round(one.rate, 1), round(one.mean_size), one.p99_size,
                one.latency_p50, one.latency_p99, one.latency_most,
            )
            for one in counted.topics
        ]  # fmt: skip
        heads = ("Topic", "Messages", "Bytes", "msg/s", "Mean", "p99", "p50 ms", "p99 ms", "Most")
        output.table("Topics (sizes of bodies in bytes, ms from born to stored)", heads, shown, False)
        hot = [(one.topic, one.name, one.messages, one.bytes) for one in counted.keys[:10]]
        output.table("Hot keys", ("Topic", "Key", "Messages", "Bytes"), hot, False)
