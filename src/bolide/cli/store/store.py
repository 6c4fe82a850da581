"""`bolide store inspect|verify|repair|truncate DIR`: a store folder of Bolide or of RocketMQ, without a broker.

`bolide store scrub` (`scrub.py`) and `bolide store snapshot` (`snapshot.py`) concern the store of a running broker.

Exit codes: 0 clean, 1 findings (or the folder cannot be read), 2 wrong usage.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from bolide.cli.store import scrub
from bolide.cli.store.snapshot import snapshot
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary

if TYPE_CHECKING:
    from bolide.store.offline.member import MemberPaths
    from bolide.store.offline.repair import Plan, Repair
    from bolide.store.offline.truncate import TruncationPlan

AnyPlan = TypeVar("AnyPlan", bound="Plan")

app = typer.Typer()
app.add_typer(scrub.app, name="scrub", help="The background check of a running broker's store.")

Folder = typer.Argument(..., help="The store folder: the one that holds commitlog, consumequeue and index.")
Config = typer.Option(None, "--config", "-c", help="The broker.conf the store was written with, for its file sizes.")
Limit = typer.Option(50, "--limit", min=1, help="Findings to print at most; all are counted.")


@app.callback()
def store() -> None:
    """Inspect, verify, repair or truncate a store folder without a broker; scrub or copy the store of a running one."""


app.command()(snapshot)


@app.command()
def inspect(folder: Path = Folder, config: Path | None = Config, as_json: bool = JsonFlag) -> None:
    """Show the contents of a store: log, queues, index files, checkpoint, and how it was stopped."""
    with boundary():
        from bolide.store.disk.files import RealFiles
        from bolide.store.offline.inspect import inspect_store

        root, shape = _opened(folder, config)
        summary = inspect_store(RealFiles(), root, shape)
        if as_json:
            output.print_json(asdict(summary))
            return
        log = summary.log
        shown: dict[str, Any] = {
            "stopped": "not cleanly, or running" if summary.abort else "cleanly",
            "format": summary.format or "none: written by RocketMQ, or before Bolide stamped stores",
            "log files": f"{log.segments} of {log.segment_size:,} bytes",
            "log": f"{log.first_offset:,} to {log.end_offset:,}",
            "records": f"{log.records:,} in {log.bytes:,} bytes",
            "stored": f"{_time(log.first_store_timestamp)} to {_time(log.last_store_timestamp)}",
            "unreadable places": log.problems,
            "config files": ", ".join(summary.config) or "none",
        }
        if summary.checkpoint is not None:
            for name, value in asdict(summary.checkpoint).items():
                shown[f"checkpoint {name}"] = _time(value) if name.endswith("timestamp") else value
        output.pairs(f"Store {root}", shown, False)
        output.table(
            "Queues",
            ("Topic", "Queue", "Records", "Bytes", "Units", "Offsets", "Files"),
            [
                (
                    q.topic,
                    q.queue_id,
                    q.records,
                    q.bytes,
                    q.units,
                    f"{q.min_offset} to {q.max_offset}",
                    f"{q.segments} + {q.ext_segments} ext" if q.ext_segments else q.segments,
                )
                for q in summary.queues
            ],
            False,
        )
        output.table(
            "Index files",
            ("Name", "Begin", "End", "From offset", "To offset", "Entries", "Slots used"),
            [
                (
                    i.name,
                    _time(i.begin_timestamp),
                    _time(i.end_timestamp),
                    i.begin_physical_offset,
                    i.end_physical_offset,
                    i.entries,
                    i.slots_used,
                )
                for i in summary.index
            ],
            False,
        )


@app.command()
def verify(folder: Path = Folder, config: Path | None = Config, limit: int = Limit, as_json: bool = JsonFlag) -> None:
    """Check every record, queue unit and index entry against the others; exit code 1 if something is wrong."""
    with boundary():
        from bolide.store.disk.files import RealFiles
        from bolide.store.offline.verify import verify_store

        root, shape = _opened(folder, config)
        verdict = verify_store(RealFiles(), root, shape)
        if as_json:
            output.print_json({"clean": verdict.clean, **asdict(verdict)})
        else:
            if verdict.findings:
                rows = [(f.path.removeprefix(f"{root}/"), f.position, f.sentence) for f in verdict.findings[:limit]]
                output.table(f"{len(verdict.findings)} findings in {root}", ("File", "Byte", "Finding"), rows, False)
            for note in verdict.notes:
                output.note(f"note: {note}")
            print(
                f"{'clean' if verdict.clean else f'{len(verdict.findings)} findings'}: {verdict.records:,} records, "
                f"{verdict.units:,} queue units, {verdict.ext_units:,} extension units, "
                f"{verdict.index_entries:,} index entries"
            )
        raise typer.Exit(output.DONE if verdict.clean else output.FAILED)


def _opened(folder: Path, config: Path | None, lost_log: bool = False) -> tuple[str, Any]:
    """Return root and shape of the store, which may lack its log with `lost_log`. Wrong usage ends the program."""
    from bolide.declaration import options_of
    from bolide.layout.shape import ShapeOptions
    from bolide.node.settings.config import read_conf
    from bolide.store.disk.files import RealFiles
    from bolide.store.offline.inspect import NoStore, shape_of

    root = str(folder)
    try:
        options = None if config is None else options_of(ShapeOptions, read_conf(str(config)))
        return root, shape_of(RealFiles(), root, options, lost_log)
    except NoStore as error:
        output.fail(str(error), output.USAGE)


def _time(timestamp_ms: int) -> str:
    """Format a store time, or return "-" for 0."""
    if timestamp_ms <= 0:
        return "-"
    try:
        return str(output.Moment(timestamp_ms))
    except (ValueError, OverflowError):
        return str(timestamp_ms)


@app.command()
def repair(
    folder: Path = Folder,
    config: Path | None = Config,
    cut: bool = typer.Option(False, "--cut", help="Truncate the log at the first bad record; do not fill the holes."),
    last_copy: bool = typer.Option(
        False, "--last-copy", help="Repair the store of a replica in place: no other replica of its set has its log."
    ),
    yes: bool = typer.Option(False, "--yes", help="Carry out the plan; without it, only show the plan."),
    as_json: bool = JsonFlag,
) -> None:
    """Repair a damaged log so that the store can start: prints a plan and, with --yes, carries it out.

    The log of a replica with a controller is truncated and its identity set aside: it copies the log of its set.
    """
    with boundary():
        from bolide.store.disk.files import RealFiles
        from bolide.store.offline.repair import Repair

        root, shape = _opened(folder, config, lost_log=True)
        work = Repair(RealFiles(), root, shape, _member_paths(root, config))
        kept = _carried_out(work, lambda: work.plan(cut, last_copy), _print_plan, yes, as_json)
        if kept:
            output.note(f"done; a copy of what was changed is in {kept}")


def _carried_out(
    work: Repair, make: Callable[[], AnyPlan], show: Callable[[AnyPlan], None], yes: bool, as_json: bool
) -> str:
    """Make and print a plan and, with `yes`, carry it out. Return the folder of the copies, or "" if all is well.

    Ends the program if there is something to do and `yes` is missing.
    """
    try:
        plan = make()
        kept = work.carry_out(plan, int(time.time() * 1000)) if plan.reason and yes else ""
    finally:
        work.close()
    if as_json:
        output.print_json({**asdict(plan), "kept": kept})
    else:
        show(plan)
    if plan.reason and not yes:
        output.note("nothing was changed: give --yes to carry out the plan")
        raise typer.Exit(output.FAILED)
    return kept


def _member_paths(root: str, config: Path | None) -> MemberPaths:
    from bolide.node.settings.config import read_conf
    from bolide.store.offline.member import MemberPaths

    conf = {} if config is None else read_conf(str(config))
    return MemberPaths.within(root, conf.get("storePathBrokerIdentity", ""), conf.get("storePathEpochFile", ""))


@app.command()
def truncate(
    folder: Path = Folder,
    config: Path | None = Config,
    at: int = typer.Option(..., "--at", min=0, help="Physical offset in the first record to remove."),
    yes: bool = typer.Option(False, "--yes", help="Carry out the plan; without it, only show the plan."),
    as_json: bool = JsonFlag,
) -> None:
    """Truncate the log of a stopped replica, even confirmed data; saves a copy of the truncated bytes."""
    with boundary():
        from bolide.store.disk.files import RealFiles
        from bolide.store.offline.truncate import Truncation

        root, shape = _opened(folder, config)
        work = Truncation(RealFiles(), root, shape, _member_paths(root, config))
        kept = _carried_out(work, lambda: work.plan_at(at), _print_truncation, yes, as_json)
        if kept:
            output.note(f"done; a copy of the truncated bytes is in {kept}")


def _print_truncation(plan: TruncationPlan) -> None:
    if not plan.reason:
        print(f"nothing to truncate: the log of {plan.root} ends at {plan.log_end:,}")
        return
    print(
        f"{plan.root}{f' ({plan.replica})' if plan.replica else ''}: {plan.reason}: {plan.followers:,} records, "
        f"{plan.cut_bytes:,} bytes, of which the set confirmed {plan.confirmed_bytes:,} or more"
    )


def _print_plan(plan: Plan) -> None:
    if not plan.reason:
        print(f"nothing to repair: the log of {plan.root} is valid up to {plan.log_end:,}")
        return
    print(f"{plan.root}: {plan.reason}; {plan.followers:,} valid records follow")
    if plan.member:
        print(
            f"this store is {plan.member}: move its identity aside, so that the broker joins as a new replica and "
            "copies the log of its set from there on"
        )
        print(
            f"{plan.member} stays a member of the set until it is given up with bolide cluster leave; an election "
            "after a full stop waits for it"
        )
        print("if no other replica of the set has this log any more, give --last-copy: the store is repaired in place")
    for hole in plan.holes:
        lost = ", ".join(f"{topic} queue {queue_id} offset {number}" for topic, queue_id, number in hole.slots)
        print(f"fill {hole.size:,} bytes at {hole.physical_offset}: {hole.fault}; lost: {lost or 'no message known'}")
    if plan.no_log:
        what = "log, queues, index and checkpoint" if plan.member else "queues, index and checkpoint"
        print(f"set {what} aside: the store starts empty")
    elif not plan.holes:
        print(f"truncate the log at {plan.log_end}: {plan.cut_bytes:,} bytes with {plan.followers:,} valid records")
