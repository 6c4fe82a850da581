"""`bolide pipeline feed`: passes the messages of topics to a sink, built-in or a plug-in."""

from __future__ import annotations

import typer

from bolide.cli.contexts.options import Master, Namesrv
from bolide.cli.pipeline.run import BadRecords, Conf, DeadLetterPath, Pattern, SourceOption, Topics
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.progress import shower


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(feed)


def feed(
    topics: str | None = Topics,
    sink: str = typer.Option(..., help="parquet, json, rocketmq, or the name of a plug-in."),
    checkpoint: str = typer.Option(..., help="Folder for the job's progress; a path for Spark."),
    settings: list[str] = typer.Option([], "--set", help="NAME=VALUE: an option of the sink; may be repeated."),
    pattern: str | None = Pattern,
    namesrv: str = Namesrv,
    follow: bool = typer.Option(False, "--follow", help="Continue with new messages until interrupted."),
    bad_records: str | None = BadRecords,
    dead_letter_path: str | None = DeadLetterPath,
    option: list[str] = SourceOption,
    conf: list[str] = Conf,
    master: str = Master,
    as_json: bool = JsonFlag,
) -> None:
    """Pass the messages of topics to a sink, in Arrow batches; the next run continues with the messages since then."""
    with boundary():
        from bolide import plugins
        from bolide.cli.pipeline.run import finished, named_values, read_from, session, with_bad_records

        plugins.find(plugins.SINKS, sink)
        more = with_bad_records(option, bad_records, dead_letter_path)
        options, given = read_from(namesrv, topics, pattern, more), named_values(settings, "--set")
        with session("feed", master, conf) as spark:
            from bolide.spark.jobs.feed import feed as run

            result = run(spark, sink, options, given, checkpoint=checkpoint, follow=follow, progress=shower())
        finished(result, "fed", as_json)
