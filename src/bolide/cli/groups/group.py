"""`bolide group`: consumer groups: settings, progress, connected members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.admin_call import call, must_exist
from bolide.cli.contexts.options import Cluster, Namesrv
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.watch import watched
from bolide.errors import BolideError
from bolide.layout.names import is_predefined_group

if TYPE_CHECKING:
    from bolide.admin.client import Admin
    from bolide.remoting.bodies.clients import Connection

app = typer.Typer()

Name = typer.Argument(..., help="Consumer group.", autocompletion=completions.groups)


@app.command("list")
@watched
def list_groups(namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """List consumer groups and their settings."""
    with boundary():
        groups = call(namesrv, lambda admin: admin.groups())
        rows = [
            (
                name,
                config.consume_enable,
                config.retry_max_times,
                config.retry_queue_nums,
                config.consume_message_orderly,
            )
            for name, config in sorted(groups.items())
        ]
        output.table("Groups", ("Group", "May consume", "Retries", "Retry queues", "Orderly"), rows, as_json)


@app.command()
@watched
def lag(
    namesrv: str = Namesrv,
    cluster: str | None = Cluster,
    system: bool = typer.Option(False, "--system", help="Also groups that RocketMQ itself uses."),
    as_json: bool = JsonFlag,
) -> None:
    """List the lag of every group, the largest first: the number of pending messages of all topics and queues, and the
    age of the oldest one."""
    with boundary():

        async def ask(admin: Any) -> tuple[list[tuple[str, int]], dict[str, int | None]]:
            found = await admin.lag_of_groups(cluster=cluster)
            listed = [(group, left) for group, left in found.items() if system or not is_predefined_group(group)]
            return listed, await admin.lag_ages(group for group, left in listed if left > 0)

        listed, ages = call(namesrv, ask)
        ordered = sorted(listed, key=lambda row: (-row[1], row[0]))
        rows = [(group, left, output.span(ages.get(group, 0))) for group, left in ordered]
        output.table("Lag of groups", ("Group", "Lag", "Lag time"), rows, as_json)


@app.command()
@watched
def show(
    group: str = Name,
    namesrv: str = Namesrv,
    topic: str | None = typer.Option(None, help="Only this topic.", autocompletion=completions.topics),
    as_json: bool = JsonFlag,
) -> None:
    """Show a group's lag in each queue, and its connected members."""
    with boundary():

        async def ask(admin: Any) -> tuple[Any, Any, Any, Any]:
            progress, connected = await admin.consumer_progress(group, topic), await admin.consumer_connections(group)
            if not progress.queues and connected is None:
                await must_exist(admin, group)
            different = await admin.different_subscriptions(group) if connected is not None else {}
            ages = await admin.lag_times(group, progress=progress) if progress.lag > 0 else {}
            return progress, connected, ages, different

        progress, connected, ages, different = call(namesrv, ask)
        clients = [] if connected is None else connected.connection_set
        rows = [
            (
                each.queue.topic,
                each.queue.broker_name,
                each.queue.queue_id,
                each.broker_offset,
                each.consumer_offset,
                each.lag,
                output.span(ages.get(each.queue, 0 if each.lag <= 0 else None)),
                output.moment(each.last_timestamp),
            )
            for each in progress.queues
        ]
        columns = ("Topic", "Broker", "Queue", "End offset", "Consumed", "Lag", "Lag time", "Last consumed was stored")
        if as_json:
            output.print_json(
                {
                    "group": group,
                    "lag": progress.lag,
                    "queues": output.json_rows(columns, rows),
                    "clients": [{"client_id": each.client_id, "address": each.client_addr} for each in clients],
                    "different_subscriptions": different,
                }
            )
            return
        output.table(f"Group {group}: lag {progress.lag:,}", columns, rows, False)
        output.table(
            "Connected", ("Client", "Address", "Language", "Version"),
            [(each.client_id, each.client_addr, each.language, each.version) for each in clients], False,
        )  # fmt: skip
        for name, members in different.items():
            listed = ", ".join(f"{member} by {text or 'nothing'}" for member, text in members.items())
            output.note(
                f"warning: members subscribe to topic {output.printable(name)} differently"
                f" ({output.printable(listed)}):"
                " brokers use one subscription for all members, so messages are lost; make them the same"
            )


@app.command()
def members(
    group: str = Name,
    namesrv: str = Namesrv,
    client: str | None = typer.Option(None, help="Only the member with this client id."),
    stacks: bool = typer.Option(False, "--stacks", help="Also the stacks of the threads and tasks of each member."),
    as_json: bool = JsonFlag,
) -> None:
    """List the connected members of a group; fails without members, or if one does not report its stacks."""
    with boundary():
        found = call(namesrv, lambda admin: _members(admin, group, client, stacks))
        columns = ("Client", "Address", "Language", "Version")
        rows = [(each.client_id, each.client_addr, each.language, each.version) for each, _, _ in found]
        if as_json and stacks:
            more = [{"stacks": text, "error": error} for _, text, error in found]
            listed = output.json_rows(columns, rows)
            output.print_json([{**row, **each} for row, each in zip(listed, more, strict=True)])
        else:
            output.table(f"Members of {group}", columns, rows, as_json)
        for each, text, error in found if stacks and not as_json else ():
            print(f"\n{output.printable(each.client_id)}: {output.printable(error) or 'stacks'}")
            for line in (text or "").expandtabs(4).splitlines():
                print(output.printable(line))
        silent = [f"{each.client_id} ({error})" for each, _, error in found if error]
        if silent:
            output.fail(f"no stacks of {', '.join(silent)}")


async def _members(
    admin: Admin, group: str, client: str | None, stacks: bool
) -> list[tuple[Connection, str | None, str | None]]:
    """Return the members with their stacks, or with an error instead."""
    connected = await admin.consumer_connections(group)
    found = [] if connected is None else connected.connection_set
    if not found:
        await must_exist(admin, group)
        output.fail(f"no member of group {group} is connected")
    chosen = [each for each in found if client in (None, each.client_id)]
    if not chosen:
        output.fail(f"{client} is no member of group {group}: {', '.join(each.client_id for each in found)} are")
    listed: list[tuple[Connection, str | None, str | None]] = []
    for each in chosen:
        text, error = None, None
        if stacks:
            try:
                text = (await admin.consumer_running_info(group, each.client_id, stack=True)).jstack
            except BolideError as failure:  # it has left or hangs: still report the other members
                error = str(failure)
            else:
                error = None if text else "its client does not report any"
        listed.append((each, text, error))
    return listed


@app.command()
def create(
    group: str = Name,
    namesrv: str = Namesrv,
    retries: int | None = typer.Option(
        None, min=-1, help="Attempts before a message goes to the dead letter queue; a new group has 16."
    ),
    orderly: bool | None = typer.Option(
        None, "--orderly/--no-orderly", help="Whether the group consumes in order; a new one does not."
    ),
    disable: bool | None = typer.Option(None, "--disable/--enable", help="Forbid or allow consuming; a new group may."),
) -> None:
    """Create a group, or change the given settings of an existing one."""
    with boundary():
        names = call(
            namesrv,
            lambda admin: admin.create_group(
                group,
                retry_max_times=retries,
                orderly=orderly,
                consume_enable=None if disable is None else not disable,
            ),
        )
        output.note(f"group {group} is set on {', '.join(names)}")


@app.command()
def delete(
    group: str = Name,
    namesrv: str = Namesrv,
    offsets: bool = typer.Option(False, "--offsets", help="Also delete its offsets."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Delete a group's settings."""
    if not yes:
        typer.confirm(f"Delete group {group}?", abort=True)
    with boundary():

        async def ask(admin: Any) -> list[str]:
            await must_exist(admin, group)
            return list(await admin.delete_group(group, remove_offset=offsets))

        output.note(f"group {group} is deleted from {', '.join(call(namesrv, ask))}")
