"""`bolide dead-letter`: the dead letters of groups: list, show, and resend them to their topics."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.admin_call import call
from bolide.cli.contexts.options import Cluster, Namesrv
from bolide.cli.entry import INTERRUPTED
from bolide.cli.messages.consume import message_fields
from bolide.cli.messages.message import show as show_message
from bolide.cli.terminal import output
from bolide.cli.terminal.moment import FORMS, moment_of
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.progress import Every
from bolide.cli.terminal.watch import watched
from bolide.errors import ArgumentError
from bolide.layout.names import DLQ_PREFIX, REDRIVER

if TYPE_CHECKING:
    from bolide.admin.client import Admin
    from bolide.admin.dead_letters import Resent
    from bolide.admin.newest import Older
    from bolide.admin.redrive import Redrive, Remaining
    from bolide.client import Producer, ReceivedMessage

T = TypeVar("T")

app = typer.Typer()

Group = typer.Argument(..., help="Consumer group.", autocompletion=completions.groups_with_dead_letters)
TOLD_EVERY_S: Final = 10.0


@app.command()
@watched
def groups(namesrv: str = Namesrv, cluster: str | None = Cluster, as_json: bool = JsonFlag) -> None:
    """List the groups with dead letters and their numbers, the largest first."""
    with boundary():
        from bolide.admin.dead_letters import groups_with_dead_letters

        found = call(namesrv, lambda admin: groups_with_dead_letters(admin, cluster))
        rows = [(each.group, each.count, output.moment(each.newest)) for each in found]
        output.table("Groups with dead letters", ("Group", "Dead letters", "Newest"), rows, as_json)


@app.command("list")
@watched
def list_letters(
    group: str = Group,
    count: int = typer.Option(32, "--count", "-c", min=1, max=1_000, help="Number of dead letters of a page."),
    begin: str = typer.Option("", help=f"Only dead letters stored at or after this time: {FORMS}."),
    end: str = typer.Option("", help="Only dead letters stored before this time."),
    skip: int = typer.Option(0, min=0, max=2_048, help="Omit this many of the newest ones; a page names the next."),
    namesrv: str = Namesrv,
    as_json: bool = JsonFlag,
) -> None:
    """List the dead letters of a group, the newest first, and how to get the next page."""
    with boundary():
        from bolide.admin.dead_letters import origin_of
        from bolide.client.messages.moment import moment_ms

        first = moment_ms("--begin", moment_of("--begin", begin)) if begin else 0
        last = moment_ms("--end", moment_of("--end", end)) if end else None

        async def ask(admin: Admin) -> tuple[list[ReceivedMessage], Older | None]:
            from bolide.admin.newest import newest_messages

            stats = await admin.topic_stats(DLQ_PREFIX + group)
            return await newest_messages(admin, stats, count=count, begin=first, end=last, skip=skip)

        found, older = _call(namesrv, group, ask)
        if as_json:
            listed = [
                {"original_topic": origin_of(letter), **message_fields(letter, unreadable=True)} for letter in found
            ]
            next_page = None if older is None else {"end": older.end, "skip": older.skip}
            output.print_json({"group": group, "dead_letters": listed, "older": next_page})
            return
        rows = [
            (
                letter.offset_message_id,
                origin_of(letter),
                output.moment(letter.store_timestamp),
                letter.reconsume_times,
                letter.tags,
                " ".join(letter.keys),
            )
            for letter in found
        ]
        columns = ("Id", "Topic", "Stored", "Retries", "Tags", "Keys")
        output.table(f"Dead letters of {group}", columns, rows, False)
        if older is not None and older.has_page:
            output.note(f"there are older ones: --end {older.end} --skip {older.skip} lists the next page")
        elif older is not None:
            output.note(f"{older.skip:,} dead letters are of one millisecond: choose an earlier --end for older ones")


@app.command()
def show(
    group: str = Group,
    message_id: str = typer.Argument(..., help="The producer's or the broker's message id."),
    namesrv: str = Namesrv,
    as_json: bool = JsonFlag,
) -> None:
    """Show one dead letter of a group."""
    with boundary():
        show_message(_call(namesrv, group, lambda admin: _stored(admin, group, message_id)), as_json)


@app.command()
def resend(
    group: str = Group,
    message_ids: list[str] = typer.Argument(None, metavar="[ID]", help="Ids of dead letters, as listed."),
    everything: bool = typer.Option(False, "--all", help="All dead letters that no earlier run with --all has sent."),
    again: bool = typer.Option(False, "--again", help="With --all: start at the oldest dead letter again."),
    limit: int = typer.Option(0, min=0, help="With --all: messages in this run at most; 0: all."),
    topic: str = typer.Option(
        "",
        "--topic",
        "-t",
        help="Where they go; default: the original topic of each.",
        autocompletion=completions.topics,
    ),
    as_group: str = typer.Option(
        REDRIVER, help="With --all: group whose offsets store the progress.", autocompletion=completions.groups
    ),
    namesrv: str = Namesrv,
    yes: bool = typer.Option(False, "--yes", help="Carry out the plan; without it, only show the plan."),
    as_json: bool = JsonFlag,
) -> None:
    """Send copies of dead letters to their original topics: prints the plan, and with --yes carries it out. All groups
    of these topics receive them."""
    with boundary():
        if bool(message_ids) == everything:
            raise ArgumentError("give ids of dead letters, or --all", "message_ids")
        if (again or limit) and not everything:
            raise ArgumentError("--again and --limit are for --all: leave them out", "again")
        if topic:
            from bolide.client.messages.arguments import check_topic

            check_topic(topic)
        if everything:
            from bolide.admin.redrive import Redrive

            _resend_all(namesrv, Redrive(group, topic, limit, as_group, again), yes, as_json)
        else:
            _resend_some(namesrv, group, list(dict.fromkeys(message_ids)), topic, yes, as_json)


def _resend_some(namesrv: str, group: str, ids: list[str], topic: str, yes: bool, as_json: bool) -> None:
    from bolide.admin import dead_letters

    async def look(admin: Admin) -> list[ReceivedMessage]:
        return [await _stored(admin, group, each) for each in ids]

    letters = _call(namesrv, group, look)
    lost = [letter.offset_message_id for letter in letters if not (topic or dead_letters.origin_of(letter))]
    if lost:
        output.fail(f"the properties of {', '.join(lost)} do not contain the original topic: choose one with --topic")
    if not yes:
        rows = [
            (letter.offset_message_id, topic or dead_letters.origin_of(letter), output.moment(letter.store_timestamp))
            for letter in letters
        ]
        output.table(f"Dead letters of {group} to resend", ("Id", "Topic", "Stored"), rows, as_json)
        output.note("nothing is sent: write --yes to resend them")
        return

    async def send(admin: Admin, producer: Producer, resent: Resent, stopped: Callable[[], bool]) -> int:
        await dead_letters.resend(producer, letters, resent, topic=topic, stopped=stopped)
        return len(letters)

    rest = "resend the others by their ids"
    _finish(group, *asyncio.run(_interruptible(namesrv, send)), rest, as_json)


def _resend_all(namesrv: str, wanted: Redrive, yes: bool, as_json: bool) -> None:
    from bolide.admin.redrive import redrive, remaining_letters

    group = wanted.group
    if not yes:

        async def ask(admin: Admin) -> list[Remaining]:
            return await remaining_letters(admin, group, wanted.as_group, again=wanted.again)

        _plan_all(wanted, _call(namesrv, group, ask), as_json)
        return

    async def send(admin: Admin, producer: Producer, resent: Resent, stopped: Callable[[], bool]) -> int:
        told = Every(TOLD_EVERY_S, late=True)

        def show(total: int) -> None:
            told(f"{resent.count:,} of {total:,} dead letters are resent")

        return await redrive(admin, producer, wanted, resent, stopped=stopped, on_progress=show)

    with _known(group):
        done = asyncio.run(_interruptible(namesrv, send))
    _finish(group, *done, "the next run with --all continues there", as_json)


def _plan_all(wanted: Redrive, left: list[Remaining], as_json: bool) -> None:
    group = wanted.group
    rows = [
        (each.queue.broker_name, each.queue.queue_id, each.next_offset, each.end_offset, each.count) for each in left
    ]
    columns = ("Broker", "Queue", "Next offset", "End offset", "Dead letters")
    output.table(f"Dead letters of {group} to resend", columns, rows, as_json)
    expired = sum(each.expired for each in left)
    if expired:
        output.note(f"{expired:,} dead letters have expired before they were resent")
    total = sum(each.count for each in left)
    if not total:
        output.note(_none_left(group))
        return
    total = min(total, wanted.limit) if wanted.limit else total
    where = wanted.topic or "their original topics"
    output.note(f"nothing is sent: write --yes to resend {total:,} dead letters of {group} to {where}")


async def _interruptible(
    namesrv: str, send: Callable[[Admin, Producer, Resent, Callable[[], bool]], Awaitable[int]]
) -> tuple[Resent, int]:
    """Call `send`; its last argument returns True after Ctrl-C or SIGTERM. A second signal ends the program."""
    from bolide.admin.client import Admin
    from bolide.admin.dead_letters import Resent
    from bolide.client import Producer

    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def stop() -> None:
        asked.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    resent = Resent()
    async with Admin(namesrv) as admin, Producer(REDRIVER, namesrv) as producer:
        return resent, await send(admin, producer, resent, asked.is_set)


def _finish(group: str, resent: Resent, total: int, rest: str, as_json: bool) -> None:
    """Report the end of a run."""
    if as_json:
        counts = {"resent": resent.count, "of": total, "skipped": resent.skipped, "interrupted": resent.interrupted}
        output.print_json({"group": group, **counts})
    if resent.skipped:
        some = ", ".join(resent.skipped[:5]) + (" and others" if len(resent.skipped) > 5 else "")
        output.note(f"{len(resent.skipped):,} are skipped, because their bodies cannot be inflated: {some}")
    deleted = total - resent.count - len(resent.skipped)
    if deleted and not resent.error and not resent.interrupted:
        output.note(f"{deleted:,} were deleted by their broker before they were resent")
    done = f"{resent.count:,} of {total:,} dead letters of {group} are resent"
    if resent.error:
        code = output.UNREACHABLE if resent.unreachable and not resent.count else output.FAILED
        output.fail(f"{done}; {resent.error}; {rest}", code)
    if resent.interrupted:
        output.note(f"{done}, then the run was interrupted: {rest}")
        raise typer.Exit(INTERRUPTED)
    if not as_json:
        output.note(f"{done}; they also remain in {DLQ_PREFIX}{group}" if total else _none_left(group))


def _none_left(group: str) -> str:
    return f"all dead letters of {group} have been resent: --again starts at the oldest one"


def _call(namesrv: str, group: str, ask: Callable[[Admin], Awaitable[T]]) -> T:
    with _known(group):
        return call(namesrv, ask)


@contextmanager
def _known(group: str) -> Iterator[None]:
    from bolide.client.messages.errors import TopicNotFound

    try:
        yield
    except TopicNotFound:
        topic = DLQ_PREFIX + group
        output.fail(f"group {group} has no dead letters: there is no topic {topic}; check the group's name")


async def _stored(admin: Admin, group: str, message_id: str) -> ReceivedMessage:
    from bolide.admin.dead_letters import dead_letter

    found = await dead_letter(admin, group, message_id)
    if found is None:
        output.fail(f"no dead letter {message_id} of group {group} is stored")
    return found
