"""`bolide topic`: create, change, list, show, delete topics."""

from __future__ import annotations

import typer

from bolide.cli import output
from bolide.cli.admin_call import call, time_text
from bolide.cli.options import Namesrv
from bolide.cli.output import JsonFlag, boundary

app = typer.Typer()

Name = typer.Argument(..., help="Topic name.")
Cluster = typer.Option(None, "--cluster", help="Only this cluster.")


@app.command("list")
def list_topics(
    namesrv: str = Namesrv,
    system: bool = typer.Option(False, "--system", help="Topics of the system as well."),
    as_json: bool = JsonFlag,
) -> None:
    """List topics."""
    with boundary():
        names = call(namesrv, lambda admin: admin.topics(system=system))
        output.table("Topics", ("Topic",), [(name,) for name in names], as_json)


@app.command()
def show(topic: str = Name, namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """Show the queues of a topic: oldest and next offset, and when something was last stored."""
    with boundary():
        stats = call(namesrv, lambda admin: admin.topic_stats(topic))
        rows = [
            (
                each.queue.broker_name,
                each.queue.queue_id,
                each.min_offset,
                each.max_offset,
                each.max_offset - each.min_offset,
                time_text(each.last_update),
            )
            for each in stats
        ]
        output.table(
            f"Topic {topic}", ("Broker", "Queue", "Min offset", "Max offset", "Messages", "Last stored"), rows, as_json
        )


@app.command()
def route(topic: str = Name, namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """Show where a topic is: brokers, addresses, numbers of queues, permissions."""
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
def create(
    topic: str = Name,
    namesrv: str = Namesrv,
    queues: int = typer.Option(8, min=1, max=65_536, help="Queues on each broker."),
    perm: int = typer.Option(6, min=0, max=7, help="6 read and write, 4 read, 2 write."),
    order: bool = typer.Option(False, "--order", help="An ordered topic."),
    cluster: str | None = Cluster,
    broker: str | None = typer.Option(None, help="Only this broker."),
    attribute: list[str] = typer.Option([], help="+key=value to set an attribute, -key to remove it; any number."),
) -> None:
    """Create a topic, or change it."""
    with boundary():
        names = call(
            namesrv,
            lambda admin: admin.create_topic(
                topic,
                queues=queues,
                perm=perm,
                order=order,
                attributes=",".join(attribute),
                cluster=cluster,
                broker=broker,
            ),
        )
        output.note(f"topic {topic} has {queues} queues on {', '.join(names)}")


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
        names = call(namesrv, lambda admin: admin.delete_topic(topic, cluster=cluster))
        output.note(f"topic {topic} is gone from {', '.join(names)}")
