"""`bolide pipeline redrive`: resends dead letters to their topics."""

from __future__ import annotations

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.options import Master, Namesrv
from bolide.cli.pipeline.run import Conf, SourceOption, Where
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.progress import shower
from bolide.layout.names import DLQ_PREFIX, REDRIVER


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(redrive)


def redrive(
    group: str = typer.Argument(
        ..., help="Consumer group whose dead letters are resent.", autocompletion=completions.groups_with_dead_letters
    ),
    namesrv: str = Namesrv,
    where: str | None = Where,
    limit: int = typer.Option(0, min=0, help="Messages in this run at most; 0: all."),
    topic: str | None = typer.Option(
        None, help="Where they go; default: the original topic of each.", autocompletion=completions.topics
    ),
    as_group: str = typer.Option(
        REDRIVER, help="Group whose offsets store the progress.", autocompletion=completions.groups
    ),
    option: list[str] = SourceOption,
    conf: list[str] = Conf,
    master: str = Master,
    as_json: bool = JsonFlag,
) -> None:
    """Send the dead letters of a group back to their original topics; the next run continues after them."""
    with boundary():
        from bolide.cli.pipeline.run import check_read, cluster_from, finished, session

        options = cluster_from(namesrv, option)
        dead = DLQ_PREFIX + group
        check_read(
            {**options, "subscribe": dead},
            False,
            f"group {group} has no dead letters: there is no topic {dead}; check the group's name",
        )
        with session("redrive", master, conf) as spark:
            from bolide.spark.jobs.redrive import redrive as run

            result = run(
                spark, group, options, where=where, limit=limit, topic=topic, as_group=as_group, progress=shower()
            )
        finished(result, "redrove", as_json)
