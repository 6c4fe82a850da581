"""`bolide bench spark`: rates of Spark's sources, sink and jobs here, compared with the limit of a Python source."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bolide.cli.pipeline.run import Conf, named_values
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.spark.bench.measure import Figure

TRANSFER_COUNT = 1024


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="spark")(spark)


def spark(
    messages: int = typer.Option(2_000_000, min=10_000, help="Messages of each store, and rows of each measure."),
    body: str = typer.Option("128,1024", help="Bytes of a body, several with commas."),
    cores: str = typer.Option("1,2", help="Cores of Spark's local master, several with commas."),
    only: str = typer.Option("", help="Measures, with commas; all when empty."),
    folder: Path | None = typer.Option(None, help="Where stores are created for the run; default: a temporary folder."),
    namesrv: str = typer.Option(
        "", "--namesrv", "-n", help="Measure sink and live source there, not on a broker started for it."
    ),
    conf: list[str] = Conf,
    as_json: bool = JsonFlag,
) -> None:
    """Measure on Spark: limit, offline source, dispatch, sink, live source, archive; with a profile by stage."""
    with boundary():
        from bolide.spark.bench.measure import MEASURES, stages

        wanted = [name.strip() for name in only.split(",") if name.strip()] or list(MEASURES)
        unknown = [name for name in wanted if name not in MEASURES]
        if unknown:
            raise ConfigError(f"--only {unknown[0]} is not a measure; use {', '.join(MEASURES)}")
        settings = {"spark.log.level": "OFF", **named_values(conf, "--conf")}
        bodies, counts = _numbers("--body", body), _numbers("--cores", cores)
        root = Path(tempfile.mkdtemp(prefix="bolide-bench-", dir=folder))
        figures: list[Figure] = []
        profile: dict[str, Any] = {}
        try:
            with _cluster(namesrv, {"sink", "live", "archive"} & set(wanted), root) as address:
                for size in bodies:
                    store = _store(root, messages, size)
                    profile[str(size)] = stages(store)
                    for count in counts:
                        figures += _measure(wanted, store, messages, size, count, address, root, settings)
                    shutil.rmtree(store)
        finally:
            shutil.rmtree(root, ignore_errors=True)
        if as_json:
            rows = [{**asdict(figure), "rows_per_second": round(figure.rate)} for figure in figures]
            output.print_json({"figures": rows, "microseconds_a_row_by_stage": profile, "speed_up": _speed_up(figures)})
            return
        _show(figures, profile)


def _numbers(option: str, text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = [0]
    if min(found) < 1:
        raise ConfigError(f"{option} {text} is not a list of whole numbers from 1")
    return found


def _store(root: Path, messages: int, body: int) -> Path:
    from bolide.spark.bench.store import make_store

    output.note(f"creating a store of {messages:,} messages of {body} bytes ...")
    make_store(root / f"store-{body}", messages, body)
    return root / f"store-{body}"


def _measure(
    wanted: Sequence[str], store: Path, messages: int, body: int, cores: int, namesrv: str, root: Path,
    settings: dict[str, str],
) -> list[Figure]:  # fmt: skip
    from bolide.spark.bench.measure import Bench, measure, topic_of
    from bolide.spark.bench.store import QUEUES
    from bolide.spark.session.session import job_session
    from bolide.spark.store.store_source import RocketMQStoreDataSource

    if namesrv:
        from bolide.admin.blocking import Admin

        with Admin(namesrv) as admin:
            admin.create_topic(topic_of(body, cores), queues=QUEUES)
    session = job_session("bolide bench spark", f"local[{cores}]", root / "spark", settings)
    try:
        session.dataSource.register(RocketMQStoreDataSource)
        bench = Bench(session, cores, body, messages, store, namesrv)
        for name in wanted:
            output.note(f"measuring {name}: {body} bytes, {cores} cores ...")
            measure(bench, name)
        return bench.figures
    finally:
        session.stop()


@contextmanager
def _cluster(namesrv: str, needed: set[str], root: Path) -> Iterator[str]:
    """Yield the address of the given cluster, or of a broker started in a separate process, or "" if no measure needs
    one."""
    if namesrv or not needed:
        yield namesrv
        return
    from bolide.cli.bench.broker import BrokerProcess

    broker = BrokerProcess(root / "broker", {"maxTransferCountOnMessageInMemory": str(TRANSFER_COUNT)})
    try:
        yield broker.namesrv
    finally:
        broker.stop()


def _speed_up(figures: Sequence[Figure]) -> dict[str, float]:
    """Return the ratio of the rate on the most cores to the rate on the fewest, by measure and body size."""
    groups: dict[str, list[Figure]] = {}
    for figure in figures:
        groups.setdefault(f"{figure.measure}, {figure.body} bytes", []).append(figure)
    found = {}
    for name, some in groups.items():
        few, many = min(some, key=lambda one: one.cores), max(some, key=lambda one: one.cores)
        if many.cores > few.cores and few.rate:
            found[name] = round(many.rate / few.rate, 2)
    return found


def _show(figures: Sequence[Figure], profile: dict[str, Any]) -> None:
    from bolide.spark.bench.measure import LIMIT

    limits = {(one.body, one.cores): one.rate for one in figures if one.measure == LIMIT}
    rows = []
    for one in figures:
        top = limits.get((one.body, one.cores))
        share = f"{100 * one.rate / top:.0f} %" if top else "-"
        micro = f"{1e6 * one.cpu_seconds / max(one.rows, 1):.2f}" if one.cpu_seconds else "-"
        rows.append((one.measure, one.body, one.cores, round(one.rate), share, micro, f"{one.seconds:.1f}"))
    names = ("Measure", "Body", "Cores", "Rows/s", "Of limit", "CPU µs/row", "Seconds")
    output.table("On Spark", names, rows, False)
    for one in figures:
        if one.note:
            output.note(f"{one.measure}, {one.body} bytes, {one.cores} cores: {one.note}")
    stage_rows = [
        (size, what, stage, f"{micro:.2f}")
        for size, parts in profile.items()
        for what, stages in parts.items()
        for stage, micro in stages.items()
    ]
    output.table("Stages, on one core", ("Body", "Of", "Stage", "CPU µs/row"), stage_rows, False)
    for name, factor in _speed_up(figures).items():
        output.note(f"{name}: {factor} times as fast on the most cores as on the fewest")
