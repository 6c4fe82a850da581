"""`bolide pipeline archive`: archives topics in tables of files, in single runs or continuously."""

from __future__ import annotations

import typer

from bolide.cli.contexts.options import Master, Namesrv
from bolide.cli.pipeline.run import (
    BadRecords,
    Checkpoint,
    Conf,
    DeadLetterPath,
    Pattern,
    SourceOption,
    TableFormat,
    Topics,
)
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.progress import shower


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(archive)


def archive(
    topics: str | None = Topics,
    out: str = typer.Option(..., help="Folder (for Iceberg: table) of the archive; a path for Spark."),
    pattern: str | None = Pattern,
    namesrv: str = Namesrv,
    table_format: str = TableFormat,
    checkpoint: str | None = Checkpoint,
    follow: bool = typer.Option(False, "--follow", help="Continue with new messages until interrupted."),
    and_read_back: bool = typer.Option(False, "--and-read-back", help="Then count archive and live log in one view."),
    bad_records: str | None = BadRecords,
    dead_letter_path: str | None = DeadLetterPath,
    option: list[str] = SourceOption,
    conf: list[str] = Conf,
    master: str = Master,
    as_json: bool = JsonFlag,
) -> None:
    """Append the messages of topics to a table partitioned by topic and date, incrementally, each exactly once."""
    with boundary():
        from bolide.cli.pipeline.run import finished, read_from, session, with_bad_records

        more = with_bad_records(option, bad_records, dead_letter_path)
        options = read_from(namesrv, topics, pattern, more)
        with session("archive", master, conf) as spark:
            from bolide.spark.jobs.archive import archive as run
            from bolide.spark.jobs.archive import read_back

            result = run(
                spark, out, options, table_format=table_format, checkpoint=checkpoint, follow=follow, progress=shower()
            )
            rows = []
            if and_read_back and not result.interrupted:
                view = read_back(spark, out, options, table_format=table_format, checkpoint=checkpoint)
                counts = view.groupBy("topic").agg({"*": "count", "archived": "count_if"}).collect()
                rows = sorted((row[0], row["count_if(archived)"], row["count(1)"]) for row in counts)
        if and_read_back and not result.interrupted:
            shown = [(topic, archived, total - archived, total) for topic, archived, total in rows]
            output.table("Archive and live log", ("Topic", "Archived", "Live", "Messages"), shown, as_json)
        else:
            finished(result, "archived", as_json)
