"""`bolide topic`: create, change, list, show, delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.admin_call import call
from bolide.cli.contexts.options import Cluster, Namesrv
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.watch import watched
from bolide.layout.limits import MAX_QUEUES
from bolide.layout.names import RETRY_PREFIX

if TYPE_CHECKING:
    from bolide.admin.client import Admin
    from bolide.remoting.bodies.topics import TopicConfig

app = typer.Typer()

Name = typer.Argument(..., help="Topic name.", autocompletion=completions.topics)


@app.command("list")
@watched
def list_topics(
    namesrv: str = Namesrv,
    system: bool = typer.Option(
        False, "--system", help="Also topics that RocketMQ itself uses, and retry topics of groups."
    ),
    as_json: bool = JsonFlag,
) -> None:
    """List topics."""
    with boundary():
        found = call(namesrv, lambda admin: admin.topics(system=system))
        names = [name for name in found if system or not name.startswith(RETRY_PREFIX)]
        output.table("Topics", ("Topic",), [(name,) for name in names], as_json)


@app.command()
@watched
def show(topic: str = Name, namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """Show the queues of a topic: oldest and next offset, and the time of the last message."""
    with boundary():
        stats = call(namesrv, lambda admin: admin.topic_stats(topic))
        rows = [
            (
                each.queue.broker_name,
                each.queue.queue_id,
                each.begin_offset,
                each.end_offset,
                each.end_offset - each.begin_offset,
                output.moment(each.last_update),
            )
            for each in stats
        ]
        output.table(
            f"Topic {topic}",
            ("Broker", "Queue", "Begin offset", "End offset", "Messages", "Last stored"),
            rows,
            as_json,
        )


@app.command()
@watched
def route(topic: str = Name, namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """Show the route of a topic: brokers, addresses, numbers of queues, permissions."""
    with boundary():
        found = call(namesrv, lambda admin: admin.topic_route(topic))
        rows = [
            (
                queue.broker_name,
                " ".join(f"{key}={address}" for key, address in sorted(found.brokers[queue.broker_name].items())),
                queue.read_queues,
                queue.write_queues,
                queue.perm,
            )
            for queue in found.queues
            if queue.broker_name in found.brokers
        ]
        output.table(f"Route of {topic}", ("Broker", "Addresses", "Read queues", "Write queues", "Perm"), rows, as_json)


@app.command()
@watched
def producers(
    topic: str = Name,
    namesrv: str = Namesrv,
    cluster: str | None = Cluster,
    group: str | None = typer.Option(None, help="Only this producer group."),
    as_json: bool = JsonFlag,
) -> None:
    """List the producers connected to the brokers of a topic, whichever topics they send to."""
    with boundary():
        found = call(namesrv, lambda admin: admin.producers(cluster=cluster, topic=topic))
        rows = [
            (
                name,
                each.client_id,
                each.remote_ip,
                each.language,
                each.version,
                output.moment(each.last_update_timestamp),
            )
            for name, connected in found.items()
            for each in connected
            if group in (None, name)
        ]
        columns = ("Group", "Client", "Address", "Language", "Version", "Last heartbeat")
        output.table(f"Producers at the brokers of {topic}", columns, rows, as_json)


@app.command()
def create(
    topic: str = Name,
    namesrv: str = Namesrv,
    queues: int | None = typer.Option(None, min=1, max=MAX_QUEUES, help="Queues on each broker; a new topic has 8."),
    perm: int | None = typer.Option(None, min=0, max=7, help="6 read and write (a new topic), 4 read, 2 write."),
    order: bool | None = typer.Option(None, "--order/--no-order", help="Whether the topic is ordered; default: not."),
    cluster: str | None = Cluster,
    broker: str | None = typer.Option(None, help="Only this broker.", autocompletion=completions.brokers),
    attribute: list[str] = typer.Option([], help="+key=value sets an attribute, -key removes it; may be repeated."),
) -> None:
    """Create a topic, or change the given settings of an existing one."""
    with boundary():

        async def ask(admin: Admin) -> tuple[list[str], dict[str, TopicConfig]]:
            names = await admin.create_topic(
                topic,
                queues=queues,
                perm=perm,
                order=order,
                attributes=",".join(attribute),
                cluster=cluster,
                broker=broker,
            )
            return names, await admin.topic_configs(topic)

        names, configs = call(namesrv, ask)
        for name in names:
            config = configs[name]
            ordered = ", ordered" if config.order else ""
            output.note(f"topic {topic} has {config.write_queue_nums} queues, perm {config.perm}{ordered} on {name}")


@app.command()
def delete(
    topic: str = Name,
    namesrv: str = Namesrv,
    cluster: str | None = Cluster,
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Delete a topic and its messages from brokers and name servers."""
    if not yes:
        typer.confirm(f"Delete topic {topic} and everything in it?", abort=True)
    with boundary():

        async def ask(admin: Admin) -> list[str]:
            known = await admin.topic_configs(topic)
            if not known and topic not in await admin.topics(system=True):
                output.fail(f"there is no topic {topic}: no broker and no name server knows it")
            return await admin.delete_topic(topic, cluster=cluster)

        output.note(f"topic {topic} is deleted from {', '.join(call(namesrv, ask))}")
