"""`bolide pipeline export` and `bolide pipeline import`: topics to files, and files to topics."""

from __future__ import annotations

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.options import Master, Namesrv
from bolide.cli.pipeline.run import BadRecords, Checkpoint, Conf, DeadLetterPath, Pattern, SourceOption, Topics
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.progress import shower

FileFormat = typer.Option("json", "--format", help="csv, json (one line per message) or parquet.")
Body = typer.Option("text", help="How csv and json hold a body: text (UTF-8) or base64.")


def attach(app: typer.Typer) -> None:
    """Add both verbs."""
    app.command("export")(export_topic)
    app.command("import")(import_files)


def export_topic(
    topics: str | None = Topics,
    out: str = typer.Option(..., help="Folder of the files; a path for Spark."),
    pattern: str | None = Pattern,
    namesrv: str = Namesrv,
    file_format: str = FileFormat,
    body: str = Body,
    checkpoint: str | None = Checkpoint,
    bad_records: str | None = BadRecords,
    dead_letter_path: str | None = DeadLetterPath,
    option: list[str] = SourceOption,
    conf: list[str] = Conf,
    master: str = Master,
    as_json: bool = JsonFlag,
) -> None:
    """Write the messages of topics to files; the next run continues with the messages since then."""
    with boundary():
        from bolide.cli.pipeline.run import finished, read_from, session, with_bad_records

        more = with_bad_records(option, bad_records, dead_letter_path)
        options = read_from(namesrv, topics, pattern, more)
        with session("export", master, conf) as spark:
            from bolide.spark.jobs.files import export_topic as run

            result = run(
                spark, out, options, file_format=file_format, body=body, checkpoint=checkpoint, progress=shower()
            )
        finished(result, "exported", as_json)


def import_files(
    path: str = typer.Argument(..., help="Folder of the files; a path for Spark."),
    topic: str = typer.Option(..., help="Where the messages go.", autocompletion=completions.topics),
    checkpoint: str = typer.Option(..., help="Folder for the job's progress: which files were sent."),
    namesrv: str = Namesrv,
    file_format: str = FileFormat,
    body: str = Body,
    body_column: str | None = typer.Option(None, help="Column that is the body; default body, else the row as JSON."),
    tags: str | None = typer.Option(None, help="Column that is the tag."),
    keys: str | None = typer.Option(None, help="Columns that are the keys, separated by commas."),
    option: list[str] = SourceOption,
    conf: list[str] = Conf,
    master: str = Master,
    as_json: bool = JsonFlag,
) -> None:
    """Send each row of files as a message; the next run sends only new files."""
    with boundary():
        from bolide.cli.pipeline.run import check_write, cluster_from, finished, session

        options = cluster_from(namesrv, option)
        check_write(options, topic, checkpoint)
        with session("import", master, conf) as spark:
            from bolide.spark.jobs.files import import_files as run

            result = run(
                spark, path, options, topic=topic, file_format=file_format, body=body, body_column=body_column,
                tags=tags, keys=[name.strip() for name in (keys or "").split(",") if name.strip()],
                checkpoint=checkpoint, progress=shower(),
            )  # fmt: skip
        finished(result, "imported", as_json)
