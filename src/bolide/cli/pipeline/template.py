"""`bolide pipeline template`: a project for Spark's declarative pipelines."""

from __future__ import annotations

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.options import Namesrv
from bolide.cli.terminal.output import boundary


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(template)


def template(
    folder: str = typer.Argument(..., help="Where the project goes; a new folder."),
    topic: str = typer.Option(..., help="The topic it reads.", autocompletion=completions.topics),
    body_schema: str = typer.Option("id STRING", help="Fields of the JSON in the bodies, as Spark's DDL."),
    namesrv: str = Namesrv,
    storage: str | None = typer.Option(None, help="URI of the folder for checkpoints; default inside the project."),
) -> None:
    """Write a project for spark-pipelines: bronze, silver and gold tables from a topic."""
    with boundary():
        from bolide.spark.jobs.template import write_template

        for path in write_template(folder, namesrv, topic, body_schema, storage):
            print(path)
        print(f"cd {folder} && spark-pipelines run --conf spark.sql.catalogImplementation=hive")
