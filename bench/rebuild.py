"""Rebuild of a store's queues and index from its log alone: a Java 5.5.0 broker beside ours on Spark, in turns.

    python bench/rebuild.py [--messages 10000000] [--rounds 3] [--folder DIR] [--with-broker] [--json [FILE]]

Each starts on a store of nothing but log and topics, and its time ends when a broker serves all: every queue to its
last message, and the last message by its key. Java's broker rebuilds as it starts. Ours is `bolide pipeline dispatch
--in-place`, Spark's start included (after a `bolide spark prepare`, which counts for nothing), then the start of our
broker on the result; `--with-broker` also measures our broker rebuilding by itself. After the first round the files are
compared byte for byte. Exit code 1 if a byte differs, or if Java's time is less than three times ours.
"""

import argparse
import shutil
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.rebuilds.derived import differences, size_of_derived
from bench.rebuilds.rebuild_runs import BROKER, JAVA, SPARK, Run, Task, measure, prepare_spark
from bench.rebuilds.served import expect
from bench.report.shown import Step, add_json_option, aligned, median, say, write_json
from bench.servers.machine import describe
from bench.servers.stopping import Failed, measured

from bolide.layout.index_file import index_file_size
from bolide.layout.shape import StoreShape
from bolide.spark.bench.store import QUEUES, SEGMENT_SIZE, TOPIC, make_store
from proof.interop.java_artefacts import BROKER_VERSION, jars

GOAL = 3.0
FULLEST_DISK = 0.85
"""Beyond this both brokers delete logs to make room."""
_RECORD_BYTES = 240
"""Of a stored message, its body apart; what is derived of it takes less than twice as much while it is made."""
_SPARE_BYTES = 4 << 30


def bytes_needed(messages: int, body: int, kept: bool) -> int:
    """Room for the log, unless it is there, and for what one round makes of it, with its copies of the last file."""
    shape = StoreShape()
    files = 1 + 2 * messages // shape.index_entries
    derived = messages * 20 + files * index_file_size(shape.index_slots, shape.index_entries)
    return (0 if kept else messages * (_RECORD_BYTES + body)) + 4 * derived + _SPARE_BYTES


def check_disk(folder: Path, needed: int) -> None:
    """Raises Failed where there is no room, or where brokers would begin to delete."""
    usage = shutil.disk_usage(folder)
    if usage.free < needed:
        raise Failed(
            f"{folder} has {usage.free / 1e9:.1f} GB free and this may take {needed / 1e9:.1f} GB: make room, name "
            "another --folder, or ask for less --messages"
        )
    full = (usage.used + needed) / (usage.used + usage.free)  # as brokers reckon: what is reserved does not count
    if full > FULLEST_DISK:
        raise Failed(
            f"the disk of {folder} would be {full:.0%} full, and a broker deletes logs from {FULLEST_DISK:.0%} on: "
            "make room"
        )


def kept_store(folder: Path, messages: int, body: int) -> Path:
    """The store in a folder that is kept; made there the first time."""
    store = folder / f"bench-{messages}x{body}"
    if not store.is_dir():
        partial = store.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)  # of one that was killed
        try:
            with Step(f"making a log of {messages:,} messages of {body} bytes"):
                make_store(partial, messages, body)
            partial.rename(store)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return store


def compare(homes: dict[str, Path]) -> list[str]:
    """The differences between the derived files of Java's broker and of each contestant of Bolide."""
    found = []
    for name in (name for name in homes if name != JAVA):
        with Step(f"comparing the files of {name} with Java's"):
            found += [f"{name}: {one}" for one in differences(homes[JAVA] / "store", homes[name] / "store")]
    files, size = size_of_derived(homes[JAVA] / "store")
    say(f"{files} derived files of {size / 1e6:,.0f} MB: {'; '.join(found[:5]) or 'equal, byte for byte'}")
    return found


def run_rounds(task: Task, names: Sequence[str], rounds: int, work: Path) -> tuple[list[Run], list[str]]:
    """Measure; even rounds go the other way round. Returns the runs, and what differed after the first round."""
    runs: list[Run] = []
    differing: list[str] = []
    stamps = task.stamps()
    for number in range(1, rounds + 1):
        homes: dict[str, Path] = {}
        for name in names if number % 2 else reversed(names):
            homes[name] = work / f"{number}-{name.replace(' ', '-')}"
            runs.append(measure(task, name, homes[name], number))
            if task.stamps() != stamps:
                raise Failed(f"the {name} wrote into a full file of the log: delete {task.store}, it is created again")
            if number > 1:
                shutil.rmtree(homes[name])
        if number == 1:
            differing = compare(homes)
            for home in homes.values():
                shutil.rmtree(home)
    return runs, differing


def ratio(runs: Sequence[Run]) -> float:
    """Median over the rounds of Java's seconds divided by those of Bolide on Spark."""
    seconds = {(run.name, run.round): run.seconds for run in runs}
    return statistics.median(seconds[JAVA, number] / seconds[SPARK, number] for number in {run.round for run in runs})


def table(runs: Sequence[Run], messages: int) -> str:
    """A line for each contestant: medians, and the seconds of each round."""
    rows = [["", "served after", "rebuilt after", "messages/s", "processors", "rounds"]]
    for name in dict.fromkeys(run.name for run in runs):
        some = sorted((run for run in runs if run.name == name), key=lambda run: run.round)
        served = median([run.seconds for run in some])
        row = [name, f"{served:.1f} s", f"{median([run.rebuild for run in some]):.1f} s", f"{messages / served:,.0f}"]
        row += [f"{median([run.cpu_seconds for run in some]):.1f} s", ", ".join(f"{run.seconds:.1f}" for run in some)]
        rows.append(row)
    return aligned(rows)


def as_values(runs: Sequence[Run], differing: Sequence[str], messages: int, body: int) -> dict[str, Any]:
    """Everything measured, for JSON."""
    values: dict[str, Any] = {"machine": describe(), "messages": messages, "body": body}
    values["runs"] = [asdict(run) for run in runs]
    return values | {"ratio": ratio(runs), "goal": GOAL, "differences": list(differing)}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--body", type=int, default=128, help="bytes of a body")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the log is made and kept (a temporary one)")
    parser.add_argument("--master", default="local[*]", help="Spark's master")
    parser.add_argument("--with-broker", action="store_true", help="also our broker rebuilding by itself")
    add_json_option(parser)
    chosen = parser.parse_args()
    if chosen.messages < QUEUES or chosen.rounds < 1 or chosen.body < 1:
        parser.error(f"there must be a round, a body, and {QUEUES} messages at least")
    return chosen


def prepare(chosen: argparse.Namespace, work: Path) -> Task:
    """Check the disk, fetch the jars, make the log."""
    kept = chosen.folder is not None and (chosen.folder / f"bench-{chosen.messages}x{chosen.body}").is_dir()
    check_disk(work, bytes_needed(chosen.messages, chosen.body, kept))
    with Step(f"looking for the jars of RocketMQ {BROKER_VERSION}"):
        jars(BROKER_VERSION)
    with Step("bolide spark prepare"):
        prepare_spark()
    store = kept_store((chosen.folder or work).resolve(), chosen.messages, chosen.body)
    expected = expect(store / "commitlog", TOPIC, QUEUES, chosen.messages, SEGMENT_SIZE)
    return Task(store, expected, chosen.messages, chosen.master)


def main() -> int:
    """Measure, compare, print."""
    chosen = arguments()
    names = [JAVA, SPARK, *([BROKER] if chosen.with_broker else [])]
    say(", ".join(f"{key} {value}" for key, value in describe().items()))

    def run(work: Path, ends: ExitStack) -> tuple[list[Run], list[str]]:
        return run_rounds(prepare(chosen, work), names, chosen.rounds, work)

    runs, differing = measured("rebuild", chosen.folder, run)
    found = ratio(runs)
    if chosen.json != "-":
        print(table(runs, chosen.messages))
        told = f"{len(differing)} differences, the first: {differing[0]}" if differing else "equal, byte for byte"
        print(f"queues and index beside Java's: {told}")
        print(f"ratio {found:.2f}, goal at least {GOAL:.0f}: {'reached' if found >= GOAL else 'missed'}")
    write_json(as_values(runs, differing, chosen.messages, chosen.body), chosen.json)
    return 0 if found >= GOAL and not differing else 1


if __name__ == "__main__":
    sys.exit(main())
