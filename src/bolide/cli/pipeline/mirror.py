"""`bolide pipeline mirror`: copies topics to another cluster, with the offsets of groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.options import Master, Namesrv
from bolide.cli.pipeline.run import BadRecords, Checkpoint, Conf, DeadLetterPath, SourceOption
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.progress import shower
from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.admin.client import Admin

T = TypeVar("T")


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(mirror)


def mirror(
    topics: str = typer.Argument(..., help="Topics, separated by commas.", autocompletion=completions.topic_lists),
    to: str = typer.Option(..., "--to", help="Name servers of the other cluster, host:port;host:port."),
    checkpoint: str | None = Checkpoint,
    namesrv: str = Namesrv,
    prefix: str = typer.Option("", help="Prefix of the topics' names in the other cluster."),
    groups: str | None = typer.Option(
        None,
        help="Groups, separated by commas, whose offsets are also set there.",
        autocompletion=completions.group_lists,
    ),
    only_offsets: bool = typer.Option(False, "--only-offsets", help="Set the groups' offsets, copy no messages."),
    follow: bool = typer.Option(False, "--follow", help="Continue with new messages until interrupted."),
    bad_records: str | None = BadRecords,
    dead_letter_path: str | None = DeadLetterPath,
    option: list[str] = SourceOption,
    to_option: list[str] = typer.Option(
        [], "--to-option", help="NAME=VALUE: an option for writes to that cluster, such as accessKey; may be repeated."
    ),
    conf: list[str] = Conf,
    master: str = Master,
    as_json: bool = JsonFlag,
) -> None:
    """Copy topics to another cluster; missing topics are created there with the same number of queues."""
    with boundary():
        if not only_offsets and checkpoint is None:
            raise ConfigError("give a --checkpoint: a folder for the mirror's progress")
        if only_offsets and not groups:
            raise ConfigError("--only-offsets needs --groups")
        from bolide.cli.pipeline.run import check_read, check_write, cluster_from, finished, session, with_bad_records

        names = [name.strip() for name in topics.split(",") if name.strip()]
        read = with_bad_records(option, bad_records, dead_letter_path)
        source = {**cluster_from(namesrv, read), "subscribe": ",".join(names)}
        target = cluster_from(to, to_option, "--to-option")
        check_read(source, True)
        check_write(target, None, checkpoint)
        made = make_topics(source, target, names, prefix)
        if made:
            output.note(f"created at {to}: {', '.join(made)}")
        with session("mirror", master, conf) as spark:
            from bolide.spark.jobs.mirror import mirror as run
            from bolide.spark.jobs.mirror import translate_offsets

            result = None
            if checkpoint is not None and not only_offsets:
                result = run(
                    spark, source, target, checkpoint=checkpoint, prefix=prefix, follow=follow, progress=shower()
                )  # fmt: skip
            found = []
            if groups:
                wanted = [name.strip() for name in groups.split(",") if name.strip()]
                make_groups(target, wanted)
                found = translate_offsets(spark, source, target, names, wanted, prefix=prefix)
        if found:
            rows = [
                (one.group, queue.topic, queue.broker, queue.queue_id, offset)
                for one in found
                for queue, offset in sorted(one.offsets.items())
            ]
            output.table("Offsets set", ("Group", "Topic", "Broker", "Queue", "Offset"), rows, as_json)
        if result is not None and not (found and as_json):
            finished(result, "mirrored", as_json)


def asked(cluster: Mapping[str, str], ask: Callable[[Admin], Awaitable[T]]) -> T:
    """Make one administrative call to the cluster in the options of a read or a write, and return its result."""
    from bolide.cli.contexts.admin_call import call
    from bolide.spark.jobs.mirror import cluster_of
    from bolide.spark.sink.sink_options import write_connection

    as_whom = write_connection(cluster_of(cluster))
    return call(
        ";".join(as_whom.namesrv), ask, access_key=as_whom.access_key, secret_key=as_whom.secret_key,
        ssl=as_whom.tls.context(),
    )  # fmt: skip


def make_groups(target: Mapping[str, str], groups: list[str]) -> None:
    """Create the groups that the other cluster lacks, because it accepts offsets only of existing groups."""

    async def make(admin: Admin) -> None:
        for name in sorted(set(groups) - set(await admin.groups())):
            await admin.create_group(name)

    asked(target, make)


def make_topics(source: Mapping[str, str], target: Mapping[str, str], names: list[str], prefix: str) -> list[str]:
    """Create the topics that the other cluster lacks, with the same number of queues per broker as at the source.
    Return their names."""
    there = set(asked(target, lambda admin: admin.topics(system=True)))
    missing = [name for name in names if prefix + name not in there]

    async def count(admin: Admin) -> dict[str, int]:
        routes = {name: await admin.topic_route(name) for name in missing}
        return {prefix + name: max(queue.write_queues for queue in route.queues) for name, route in routes.items()}

    async def make(admin: Admin) -> None:
        for name, queues in counts.items():
            await admin.create_topic(name, read_queues=queues, write_queues=queues)

    counts = asked(source, count) if missing else {}
    if counts:
        asked(target, make)
    return list(counts)
