"""`bolide pipeline replay`: resends an archive, or a part of it."""

from __future__ import annotations

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.options import Master, Namesrv
from bolide.cli.pipeline.run import Conf, SourceOption, TableFormat, Where
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.progress import shower


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(replay)


def replay(
    source: str = typer.Argument(..., help="The archive: its folder, or for Iceberg its table."),
    checkpoint: str = typer.Option(..., help="Folder for the progress of this replay."),
    namesrv: str = Namesrv,
    topic: str | None = typer.Option(
        None, help="Where everything goes; default: each message to its own topic.", autocompletion=completions.topics
    ),
    where: str | None = Where,
    rate: int = typer.Option(0, min=0, help="Messages per second at most; 0: no limit."),
    original_time: bool = typer.Option(False, "--original-time", help="Keep each message's born timestamp."),
    table_format: str = TableFormat,
    option: list[str] = SourceOption,
    conf: list[str] = Conf,
    master: str = Master,
    as_json: bool = JsonFlag,
) -> None:
    """Send archived messages again, each queue in order; an interrupted replay resumes where it stopped."""
    with boundary():
        from bolide.cli.pipeline.run import check_write, cluster_from, finished, session

        options = cluster_from(namesrv, option)
        check_write(options, topic)
        with session("replay", master, conf) as spark:
            from bolide.spark.jobs.replay import replay as run

            result = run(
                spark, source, options, checkpoint=checkpoint, where=where, topic=topic, rate=rate,
                original_time=original_time, table_format=table_format, progress=shower(),
            )  # fmt: skip
        finished(result, "replayed", as_json)
