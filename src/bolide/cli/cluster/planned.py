"""`bolide cluster switch, drain, join, leave, restart`: planned work on a cluster. Each prints a plan first."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Final

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.admin_call import call
from bolide.cli.contexts.options import Namesrv
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.progress import Every
from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.admin.client import Admin
    from bolide.admin.drain import Left
    from bolide.admin.rolling import RollingStep

BrokerSet = typer.Argument(..., metavar="SET", help="Broker name of the set.", autocompletion=completions.brokers)
Controller = typer.Option("", "--controller", help="Controllers; default: the controllers of a broker of the set.")
Yes = typer.Option(False, "--yes", help="Carry out the plan; without it, only show the plan.")
Settle = typer.Option(
    35.0, "--settle", min=0.0, help="Seconds until producers know a changed permission: they check every 30 s."
)
TOLD_EVERY_S: Final = 10.0


def attach(app: typer.Typer) -> None:
    """Add the verbs."""
    for verb in (switch, drain, join, leave, restart):
        app.command()(verb)


def switch(
    broker_set: str = BrokerSet,
    to: int = typer.Option(..., "--to", help="Id of the next master at the controller; the plan lists the ids."),
    namesrv: str = Namesrv,
    controller: str = Controller,
    yes: bool = Yes,
    as_json: bool = JsonFlag,
) -> None:
    """Make another broker the master of a set under a controller; fails unless that broker is in sync."""
    with boundary():
        members = call(namesrv, lambda admin: admin.members(broker_set, controller))
        rows = [
            (each.broker_id, each.address, each.epoch, each.master, each.in_sync, each.alive, each.broker_id == to)
            for each in members
        ]
        columns = ("Id", "Address", "Epoch", "Master", "In sync", "Alive", "Next master")
        output.table(f"Members of {broker_set}", columns, rows, as_json)
        chosen = next((each for each in members if each.broker_id == to), None)
        if chosen is None:
            output.fail(f"{broker_set} has no broker with the id {to}")
        if chosen.master:
            output.fail(f"{to} is the master of {broker_set} already")
        if not chosen.alive or (not chosen.in_sync and any(each.in_sync for each in members)):
            output.fail(f"{to} is not in sync or does not live: it would lack acknowledged messages")
        if yes:
            epoch = call(namesrv, lambda admin: admin.switch_master(broker_set, to, controller))
            output.note(f"{to} is the master of epoch {epoch}")


def drain(
    broker_set: str = BrokerSet,
    namesrv: str = Namesrv,
    yes: bool = Yes,
    undo: bool = typer.Option(False, "--undo", help="Restore the write permission, so that producers return."),
    alone: bool = typer.Option(False, "--alone", help="Continue even if no other broker set has the topics."),
    timeout: float = typer.Option(
        3600.0, "--timeout", min=0.0, help=("Maximum time to wait for remaining messages, in seconds.")
    ),
    settle: float = Settle,
    as_json: bool = JsonFlag,
) -> None:
    """Take a set out of service: producers avoid it, and groups consume its remaining messages."""
    with boundary():
        if undo:
            topics = call(namesrv, lambda admin: admin.add_write_permission(broker_set))
            output.note(f"producers may use {broker_set} again: {max(topics.values(), default=0)} topics")
            return

        async def look(admin: Admin) -> tuple[list[str], list[Left]]:
            from bolide.admin.drain import left_at, only_at

            return await only_at(admin, broker_set), await left_at(admin, broker_set)

        lonely, left = call(namesrv, look)
        rows = [(each.group, each.topic, each.messages) for each in left]
        output.table(f"Left at {broker_set}", ("Group", "Topic", "Messages"), rows, as_json)
        if lonely and not alone:
            output.fail(
                f"producers of {', '.join(lonely[:5])}{' and others' if len(lonely) > 5 else ''} find no other set: "
                f"create these topics there, or write --alone"
            )
        if not yes:
            output.note(
                f"--yes takes the write permission of {broker_set} at the name servers, and waits until nothing is left"
            )
            return
        show = Every(TOLD_EVERY_S)

        async def run(admin: Admin) -> None:
            from bolide.admin.drain import drain as drained

            try:
                await drained(
                    admin, broker_set, timeout, lambda now: show(_summary(broker_set, now)), settle,
                    lambda error: show(f"{broker_set}: {error}; this is tried again"),
                )  # fmt: skip
            except asyncio.CancelledError:
                output.note(f"producers of {broker_set} stay away: bolide cluster drain {broker_set} --undo ends that")
                raise

        call(namesrv, run)
        output.note(f"{broker_set} holds nothing for anybody: stop it, or give its permission back with --undo")


def _summary(broker_set: str, left: list[Left]) -> str:
    if not left:
        return f"{broker_set}: nothing is left, waiting until all producers know that it takes nothing"
    worst = max(left, key=lambda each: each.messages)
    total = sum(each.messages for each in left)
    return f"{broker_set}: {total:,} messages are left, most of them in {worst.topic or 'sends'} for {worst.group}"


def join(
    broker_set: str = BrokerSet,
    namesrv: str = Namesrv,
    wait: int | None = typer.Option(None, "--wait", min=1, help="Wait until the replica with this id is in sync."),
    timeout: float = typer.Option(3600.0, "--timeout", min=0.0, help="Seconds to wait."),
) -> None:
    """Print the broker.conf for another broker of a set, or wait until a started replica is in sync."""
    with boundary():
        if wait is None:
            for key, value in call(namesrv, lambda admin: _settings(admin, broker_set)).items():
                print(f"{key} = {value}")
            output.note(
                "write these lines to the new machine's broker.conf, with its own storePathRootDir, listenPort, "
                "bindAddress, brokerIP1 and certificates; start it, and wait with --wait ID"
            )
            return
        number, show = wait, Every(TOLD_EVERY_S)

        def told(lacks: int) -> None:
            how = f"lacks {lacks / 1e6:,.1f} MB" if lacks >= 0 else "is not registered, or not in sync"
            show(f"{broker_set}: replica {number} {how}")

        async def run(admin: Admin) -> None:
            from bolide.admin.joining import joined

            await joined(
                admin, broker_set, number, timeout, told,
                lambda error: show(f"{broker_set}: {error}; this is tried again"),
            )  # fmt: skip

        call(namesrv, run)
        output.note(f"replica {number} of {broker_set} is in sync")


async def _settings(admin: Admin, broker_set: str) -> dict[str, str]:
    from bolide.admin.joining import settings_to_join

    return await settings_to_join(admin, broker_set)


def leave(
    broker_set: str = BrokerSet,
    id_: int = typer.Option(..., "--id", help="Id of the replica at the controller; the plan lists the ids."),
    namesrv: str = Namesrv,
    controller: str = Controller,
    yes: bool = Yes,
    as_json: bool = JsonFlag,
) -> None:
    """Remove a permanently stopped replica from the controllers' set, and print what its loss may cost.

    Fails while the replica is alive, and for the master. An election that waits for it continues.
    """
    with boundary():
        members = call(namesrv, lambda admin: admin.members(broker_set, controller))
        rows = [
            (each.broker_id, each.address, each.master, each.in_sync, each.alive,
             each.log_end if each.log_end >= 0 else None, each.broker_id == id_)
            for each in members
        ]  # fmt: skip
        columns = ("Id", "Address", "Master", "In sync", "Alive", "Log end", "Leaves")
        output.table(f"Members of {broker_set}", columns, rows, as_json)

        async def run(admin: Admin) -> None:
            from bolide.admin.joining import may_leave

            if lost := may_leave(broker_set, members, id_):
                output.note(lost)
            if yes:
                await admin.forget_member(broker_set, id_, controller)

        call(namesrv, run)
        output.note(f"{id_} has left {broker_set}" if yes else f"--yes has the controllers forget {id_}")


def restart(
    sets: list[str] = typer.Argument(
        None, metavar="SET", help="Broker names of the sets; all without any.", autocompletion=completions.brokers
    ),
    run: str = typer.Option(
        ...,
        "--run",
        help="Command that restarts one broker's process, such as 'ssh {host} systemctl restart bolide-broker'; "
        "{address}, {host}, {port}, {name} and {id} are the broker's.",
    ),
    namesrv: str = Namesrv,
    yes: bool = Yes,
    timeout: float = typer.Option(600.0, "--timeout", min=1.0, help="Seconds for one broker to be back in sync."),
    settle: float = Settle,
    as_json: bool = JsonFlag,
) -> None:
    """Restart brokers one after the other: slaves first, a master once another broker leads its set."""
    with boundary():
        from bolide.admin.rolling import Rolling, StepKind, restart_plan

        steps = call(namesrv, lambda admin: restart_plan(admin, sets or ()))
        rows = [
            (each.broker_name, each.action.value, each.address, each.broker_id,
             shlex.join(_words(run, each)) if each.action is StepKind.RESTART else each.note)
            for each in steps
        ]  # fmt: skip
        output.table("Steps", ("Broker", "Step", "Address", "Id", "Command"), rows, as_json)
        for each in steps:
            if each.note:
                output.note(f"{each.broker_name}: {each.note}")
        if not yes:
            output.note(f"{len(steps)} steps are planned; write --yes to take them")
            return

        async def take(admin: Admin) -> int:
            return await Rolling(admin, lambda step: _run(_words(run, step)), timeout, settle, output.note).take(steps)

        output.note(f"{call(namesrv, take)} steps are done")


def _words(template: str, step: RollingStep) -> list[str]:
    """Return the command for a broker. Raises `ConfigError` if the template is empty or its braces are invalid."""
    host, _, port = step.address.rpartition(":")
    values = {"address": step.address, "host": host, "port": port, "name": step.broker_name, "id": step.broker_id}
    try:
        words = [word.format_map(values) for word in shlex.split(template)]
    except (KeyError, IndexError, ValueError) as error:
        raise ConfigError(
            f"--run {template!r} cannot be read ({error}): braces may hold address, host, port, name and id"
        ) from None
    if not words:
        raise ConfigError("--run is empty: write the command that restarts a broker")
    return words


async def _run(words: list[str]) -> None:
    """Run a command with inherited output. Raises `StepFailed` unless its exit status is 0."""
    from bolide.admin.rolling import StepFailed

    try:
        process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL)
    except OSError as error:
        raise StepFailed(f"{words[0]}: {error.strerror}: this step restarted nothing") from None
    try:
        status = await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if status:
        raise StepFailed(f"{shlex.join(words)} ended with status {status}: the steps after it are not taken")
