"""`bolide store snapshot FOLDER`: a copy of the store of a running broker, on the broker's machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.admin_call import call
from bolide.cli.contexts.options import Namesrv
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.progress import shower
from bolide.job_progress import JobProgress

if TYPE_CHECKING:
    from bolide.admin.client import Admin
    from bolide.remoting.store_position import StorePosition
    from bolide.store.options import StoreOptions
    from bolide.store.snapshot import Progress, Source

QUIET_S: Final = 2.0
"""Duration of a copy in seconds above which its progress is shown."""
Target = typer.Argument(..., help="New folder for the copy.")
Broker = typer.Option(
    "",
    "--broker",
    help="Broker name of a master, or the address of any broker; without it, the only registered broker.",
    autocompletion=completions.brokers,
)
Store = typer.Option(None, "--store", help="The broker's store folder, if this machine has it at another path.")


def snapshot(
    folder: Path = Target,
    broker: str = Broker,
    store: Path | None = Store,
    namesrv: str = Namesrv,
    as_json: bool = JsonFlag,
) -> None:
    """Copy the store of a running broker to a new folder. Run it on the broker's machine, as the broker's user.

    Complete files of the log are hard links if the folder is on the disk of the store.
    """
    with boundary():
        from bolide.declaration import options_of
        from bolide.layout.shape import ShapeOptions, StoreShape
        from bolide.store.disk.files import RealFiles
        from bolide.store.options import StoreOptions
        from bolide.store.snapshot import StoreSnapshot

        target = Path(os.path.abspath(folder))
        if not target.parent.is_dir():
            output.fail(f"there is no folder {target.parent} for the copy: create it", output.USAGE)
        address, settings = call(namesrv, lambda admin: _broker(admin, broker))
        options = options_of(StoreOptions, settings)
        shape = StoreShape.of(options_of(ShapeOptions, settings))
        files, now = RealFiles(), int(time.time() * 1000)
        source = _source(namesrv, address, settings, options, store)
        report = StoreSnapshot(files, source, str(target), shape, options, now, _shown()).run()
        if as_json:
            output.print_json(asdict(report))
            return
        print(
            f"{report.folder} has the log from {report.log_begin:,} to {report.log_end:,}: {report.linked_files:,} "
            f"linked files of {report.linked_bytes:,} bytes, {report.copied_bytes:,} bytes copied"
        )


def _source(
    namesrv: str, address: str, settings: dict[str, str], options: StoreOptions, store: Path | None
) -> Source:
    """Return the store of the broker, whose path the broker reports."""
    from bolide.node.loop.table_sums import TableSums
    from bolide.store.disk.files import RealFiles
    from bolide.store.snapshot import EPOCHS, Source

    def position() -> StorePosition:
        return call(namesrv, lambda admin: _position(admin, address))

    root = os.path.abspath(store if store is not None else position().root)
    limit = options.clean_forcibly_ratio if options.clean_file_forcibly_enable else options.warning_ratio
    files = RealFiles()
    epochs = settings.get("storePathEpochFile", "") or f"{root}/{EPOCHS}"
    return Source(root, position, lambda: TableSums(files), epochs, limit)


def _shown(clock: Callable[[], float] = time.monotonic) -> Progress:
    """Return a function that shows the progress of each stage, unless the command is about to end. `clock` returns
    seconds."""
    show, began = shower(), dict[str, float]()
    start = clock()

    def progress(stage: str, done: int, total: int, unit: str) -> None:
        now = clock()
        first = began.setdefault(stage, now)
        if now - start >= QUIET_S:
            show(JobProgress(stage, done, total, now - first, unit))

    return progress


async def _broker(admin: Admin, broker: str) -> tuple[str, dict[str, str]]:
    """Return the address of the broker and its settings. Ends the program if the choice is not clear."""
    address = broker
    if ":" not in broker:
        masters = await admin.masters(broker=broker or None)
        if len(masters) > 1:
            output.fail(f"there are {len(masters)} brokers, {', '.join(sorted(masters))}: give --broker", output.USAGE)
        (address,) = masters.values()
    return address, await admin.broker_config(address)


async def _position(admin: Admin, address: str) -> StorePosition:
    from bolide.remoting import codes
    from bolide.remoting.bodies.stats import KVTable
    from bolide.remoting.store_position import position_ext, position_of

    told = await admin.decoded(KVTable, address, codes.GET_BROKER_RUNTIME_INFO, position_ext())
    found = position_of(told.table)
    if found is None:
        output.fail(f"{address} is RocketMQ's broker or an older one of Bolide: stop it to copy its store")
    return found
