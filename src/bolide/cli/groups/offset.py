"""`bolide offset`: show, reset and clone the offsets of a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.admin_call import call, must_exist
from bolide.cli.contexts.options import Namesrv
from bolide.cli.terminal import output
from bolide.cli.terminal.moment import FORMS, start_of
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.watch import watched

if TYPE_CHECKING:
    from bolide.admin.client import Admin
    from bolide.admin.groups import GroupProgress
    from bolide.admin.reset_plan import Move
    from bolide.client.messages.queue import MessageQueue

app = typer.Typer()


@app.command()
@watched
def show(
    group: str = typer.Argument(..., help="Consumer group.", autocompletion=completions.groups),
    topic: str = typer.Argument(..., help="Topic.", autocompletion=completions.topics),
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
    group: str = typer.Argument(..., help="Consumer group.", autocompletion=completions.groups),
    topic: str = typer.Argument(..., help="Topic.", autocompletion=completions.topics),
    to: str = typer.Argument(..., help=f"first, last, or a time: {FORMS}."),
    namesrv: str = Namesrv,
    yes: bool = typer.Option(False, "--yes", help="Carry out the plan; without it, only show the plan."),
    as_json: bool = JsonFlag,
) -> None:
    """Reset a group's offsets: prints the plan, and with --yes carries it out. Online members switch immediately,
    others when they start."""
    with boundary():
        start = start_of("TO", to)
        if not yes:
            from bolide.admin.reset_plan import planned_reset

            async def ask(admin: Admin) -> list[Move]:
                moves = await planned_reset(admin, group, topic, start)
                await must_exist(admin, group)
                return moves

            rows: list[tuple[object, ...]] = [
                (each.queue.broker_name, each.queue.queue_id, _shown(each.now), each.then, each.repeated, each.skipped)
                for each in call(namesrv, ask)
            ]
            columns = ("Broker", "Queue", "Offset now", "Offset then", "Again", "Skipped")
            output.table(f"Offsets of {group} in {topic}", columns, rows, as_json)
            output.note(f"nothing is changed: write --yes to reset {group} in {topic}")
            return
        moved = call(namesrv, lambda admin: admin.reset_offset(group, topic, start))
        rows = [(queue.broker_name, queue.queue_id, offset) for queue, offset in moved.items()]
        output.table(f"New offsets of {group} in {topic}", ("Broker", "Queue", "Offset"), rows, as_json)


@app.command()
def clone(
    source: str = typer.Argument(
        ..., metavar="FROM", help="Consumer group whose offsets are copied.", autocompletion=completions.groups
    ),
    target: str = typer.Argument(
        ...,
        metavar="TO",
        help="Consumer group that receives them; no member may be running.",
        autocompletion=completions.groups,
    ),
    topic: str = typer.Argument(..., help="Topic.", autocompletion=completions.topics),
    namesrv: str = Namesrv,
    yes: bool = typer.Option(False, "--yes", help="Carry out the plan; without it, only show the plan."),
    as_json: bool = JsonFlag,
) -> None:
    """Copy the offsets of a group in a topic to another group; prints the plan first."""
    with boundary():
        if source == target:
            output.fail(f"FROM and TO are both {source}: name two groups", output.USAGE)
        planned = call(namesrv, lambda admin: _planned_clone(admin, source, target, topic))
        rows = [(queue.broker_name, queue.queue_id, _shown(now), _shown(then)) for queue, now, then in planned]
        columns = ("Broker", "Queue", "Offset now", "Offset then")
        output.table(f"Offsets of {target} in {topic}", columns, rows, as_json)
        if not yes:
            output.note(f"write --yes to give {target} these offsets of {source}")
            return
        call(namesrv, lambda admin: admin.clone_offsets(source, target, topic))
        output.note(f"{target} has the offsets of {source} in {topic}")


def _shown(offset: int) -> int | None:
    return offset if offset >= 0 else None


async def _planned_clone(admin: Admin, source: str, target: str, topic: str) -> list[tuple[MessageQueue, int, int]]:
    """Return each queue with the target's offset before and after, or -1 without one. A broker that has an offset of
    the source replaces all offsets of the target in the topic. Other brokers change nothing."""
    from bolide.admin.together import each

    queues = await admin.topic_route(topic)
    listed = sorted(queues.read_queues())
    connected = await admin.consumer_connections(target)
    if connected is not None and connected.connection_set:
        who = ", ".join(each.client_id for each in connected.connection_set)
        output.fail(f"{who} of group {target} is connected and would overwrite the offsets: stop the group first")
    copied = await each(listed, lambda queue: admin.group_offset(source, queue))
    before = await each(listed, lambda queue: admin.group_offset(target, queue))
    if max(copied.values(), default=-1) < 0:
        await must_exist(admin, source)
        output.fail(f"group {source} has no offsets in topic {topic}: nothing is there to copy")
    replaced = {queue.broker_name for queue, offset in copied.items() if offset >= 0}
    return [(queue, now, copied[queue] if queue.broker_name in replaced else now) for queue, now in before.items()]
