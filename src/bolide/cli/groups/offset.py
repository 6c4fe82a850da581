"""`bolide offset`: show and reset the offsets of a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from bolide.cli.contexts.admin_call import call, must_exist
from bolide.cli.contexts.options import Namesrv
from bolide.cli.terminal import output
from bolide.cli.terminal.moment import FORMS, start_of
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.watch import watched

if TYPE_CHECKING:
    from bolide.admin.client import Admin
    from bolide.admin.groups import GroupProgress

app = typer.Typer()


@app.command()
@watched
def show(
    group: str = typer.Argument(..., help="Consumer group."),
    topic: str = typer.Argument(..., help="Topic."),
    namesrv: str = Namesrv,
    as_json: bool = JsonFlag,
) -> None:
    """Show the committed offset of each queue."""
    with boundary():

        async def ask(admin: Admin) -> GroupProgress:
            progress = await admin.consumer_progress(group, topic)
            if not progress.queues:
                await admin.topic_route(topic)
                await must_exist(admin, group)
            return progress

        progress = call(namesrv, ask)
        rows = [
            (each.queue.broker_name, each.queue.queue_id, each.consumer_offset, each.broker_offset, each.lag)
            for each in progress.queues
        ]
        output.table(
            f"Offsets of {group} in {topic}", ("Broker", "Queue", "Consumed", "End offset", "Lag"), rows, as_json
        )


@app.command()
def reset(
    group: str = typer.Argument(..., help="Consumer group."),
    topic: str = typer.Argument(..., help="Topic."),
    to: str = typer.Argument(..., help=f"first, last, or a time: {FORMS}."),
    namesrv: str = Namesrv,
    as_json: bool = JsonFlag,
) -> None:
    """Reset a group's offsets; online members switch at once, others when they start."""
    with boundary():
        start = start_of("TO", to)
        moved = call(namesrv, lambda admin: admin.reset_offset(group, topic, start))
        rows = [(queue.broker_name, queue.queue_id, offset) for queue, offset in moved.items()]
        output.table(f"New offsets of {group} in {topic}", ("Broker", "Queue", "Offset"), rows, as_json)
