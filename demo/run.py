"""`make demo`: a year of departures through a broker, three consumer groups and Spark, checked to the last message.

Starts everything as processes of its own, shows live progress, kills a broker in a second run, and ends with a summary
and one HTML report. Exit status 0 only when every count is right.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import signal
import struct
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from bolide import _impl
from demo.flights import ROWS, TOPIC, WITHOUT_TAIL, hourly, read_rows
from demo.processes import Part, broker_pid, until
from demo.report import Check, Samples, write_report

QUEUES = 8
CRASH_TOPIC = "flights_crash"
CRASH_MESSAGES = 40_000
CRASH_AFTER = 12_000
FILTER = "UA || DL"
PATIENCE = ("brokerFastFailureEnable=false", "osPageCacheBusyTimeOutMills=10000", "maxParkedSendMillis=10000")
"""The producer waits ten seconds for each send, and so does the broker before it refuses one, because on a slow machine
a flight that is sent again would arrive after later ones.
"""
LONGEST = 600.0
"""Seconds that any step may take: long, for a slow machine is no fault; what ends early is told at once."""
PLAIN_EVERY = 5.0
"""Seconds between lines of progress where there is no terminal to draw in."""
SENT, SHARED, FILTERED, ORDERLY, PARQUET = "acknowledged", "clustering", "UA || DL", "orderly", "Spark rows"

console = Console()


class Demo:
    """One run: its folder, its processes, and what was found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: list[Part] = []
        self.checks: list[Check] = []
        self.samples = Samples()
        self.facts: dict[str, str] = {}
        self.begin = time.monotonic()

    def part(self, name: str, module: str, *arguments: object) -> Part:
        """Start a process."""
        part = Part(name, self.folder, module, *arguments)
        self.parts.append(part)
        return part

    def check(self, what: str, expected: object, found: object) -> None:
        """Note one line of the summary; numbers are shown with separators."""
        shown = [f"{value:,}" if isinstance(value, int) else str(value) for value in (expected, found)]
        self.checks.append(Check(what, shown[0], shown[1], expected == found))

    def end(self) -> None:
        """Stop whatever still runs, the last one started first."""
        for part in reversed(self.parts):
            part.end()


def create_topic(namesrv: str, topic: str) -> None:
    """Create a topic before anybody uses it, so that consumers can hold its queues."""
    from bolide.admin.client import Admin

    async def create() -> None:
        async with Admin(namesrv) as admin:
            await admin.create_topic(topic, queues=QUEUES)

    asyncio.run(create())


def consumer(demo: Demo, namesrv: str, name: str, group: str, *extra: str) -> Part:
    """Start a consumer process."""
    result = demo.folder / f"{name}.json"
    return demo.part(name, "demo.consume", namesrv, "--group", group, "--result", result, *extra)


def rows_of(demo: Demo, *names: str) -> bytearray:
    """How often each row came to these consumers together."""
    total = bytearray(ROWS)
    for name in names:
        for row, count in enumerate(zlib.decompress((demo.folder / f"{name}.rows").read_bytes())):
            if count:
                total[row] = min(total[row] + count, 255)
    return total


def progress(counts: dict[str, int], totals: dict[str, int], rate: float, phase: str) -> Table:
    """The live table."""
    table = Table(title=f"{phase}   {rate:,.0f} messages/s acknowledged", title_justify="left")
    for column in ("What", "Count", "Of", ""):
        table.add_column(column, justify="left" if column in ("What", "") else "right")
    for name, count in counts.items():
        total = totals[name]
        filled = min(int(30 * count / total), 30) if total else 0
        table.add_row(name, f"{count:,}", f"{total:,}", "█" * filled + "░" * (30 - filled))
    return table


def main_run(demo: Demo, namesrv: str, rows: list[dict[str, str]]) -> None:
    """The year of flights: produced, consumed by three groups, streamed to Parquet, all at once."""
    create_topic(namesrv, TOPIC)
    one = consumer(demo, namesrv, "clustering-1", "demo-clustering")
    two = consumer(demo, namesrv, "clustering-2", "demo-clustering")
    filtered = consumer(demo, namesrv, "filter", "demo-filter", "--tags", FILTER)
    orderly = consumer(demo, namesrv, "orderly", "demo-orderly", "--orderly")
    stream = demo.part("spark", "demo.stream", namesrv, demo.folder / "spark", ROWS)
    consumers = [one, two, filtered, orderly]
    console.print("Starting consumers and Spark ...")
    until(
        lambda: (
            one.get("assigned") + two.get("assigned") == QUEUES
            and min(one.get("assigned"), two.get("assigned")) > 0
            and filtered.get("assigned") == QUEUES
            and orderly.get("assigned") == QUEUES
            and stream.get("ready", False)
        ),
        LONGEST,
        "the consumers to hold their queues and the Spark query to start",
        demo.parts,
    )
    producer = demo.part("producer", "demo.produce", namesrv)
    wanted = sum(1 for row in rows if row["carrier"] in ("UA", "DL"))
    totals = {SENT: ROWS, SHARED: ROWS, FILTERED: wanted, ORDERLY: ROWS, PARQUET: ROWS}

    def counts() -> dict[str, int]:
        return {
            SENT: producer.get("acknowledged"),
            SHARED: one.get("consumed") + two.get("consumed"),
            FILTERED: filtered.get("consumed"),
            ORDERLY: orderly.get("consumed"),
            PARQUET: stream.get("rows"),
        }

    follow(demo, counts, totals, producer, stream)
    for part in consumers:
        part.tell_to_stop()
    for part in (producer, stream, *consumers):
        demo.check(f"{part.name}: exit status", 0, part.finished(LONGEST))
    judge(demo, producer, stream, rows, wanted)


def follow(
    demo: Demo, counts: Callable[[], dict[str, int]], totals: dict[str, int], producer: Part, stream: Part
) -> None:
    """Show progress and sample counts until everything has come."""
    begin = time.monotonic()
    sampled = said = 0.0
    with Live(console=console, refresh_per_second=4, transient=True) as live:

        def tick() -> None:
            nonlocal sampled, said
            now = time.monotonic() - begin
            current = counts()
            if now - sampled >= 0.5:
                sampled = now
                demo.samples.add(now, current)
            rate = producer.get("acknowledged") / max(producer.get("seconds"), 0.001)
            phase = "Spark restarted from its checkpoint" if stream.get("restarted") else "Flights"
            live.update(progress(current, totals, rate, phase))
            if not console.is_terminal and now - said >= PLAIN_EVERY:
                said = now
                shown = ", ".join(f"{name} {count:,}" for name, count in current.items())
                print(f"{now:4.0f} s  {phase}: {shown}; {rate:,.0f}/s", flush=True)

        def complete() -> bool:
            current = counts()
            return all(current[name] >= totals[name] for name in totals) and bool(stream.get("done", False))

        until(complete, LONGEST, "every message to arrive everywhere", demo.parts, tick)
    demo.samples.add(time.monotonic() - begin, counts())


def judge(demo: Demo, producer: Part, stream: Part, rows: list[dict[str, str]], wanted: int) -> None:
    """Compare what came with what was sent, row by row."""
    rate = producer.get("acknowledged") / max(producer.get("seconds"), 0.001)
    demo.facts["Production"] = f"{producer.get('seconds'):.1f} s, {rate:,.0f} messages/s acknowledged"
    demo.check("Sent and acknowledged", ROWS, producer.get("acknowledged"))
    demo.check("Sends that failed", 0, producer.get("failed"))
    for name, parts in (("Clustering group of two", ("clustering-1", "clustering-2")), ("Orderly group", ("orderly",))):
        seen = rows_of(demo, *parts)
        demo.check(f"{name}: distinct flights", ROWS, ROWS - seen.count(0))
        demo.check(f"{name}: lost, duplicated", "0, 0", f"{seen.count(0)}, {sum(seen) - (ROWS - seen.count(0))}")
    seen = rows_of(demo, "filter")
    right = sum(1 for number, row in enumerate(rows) if row["carrier"] in ("UA", "DL") and seen[number] == 1)
    demo.check(f"Filter {FILTER}: the right flights, once each", wanted, right)
    demo.check(f"Filter {FILTER}: other flights", 0, sum(seen) - right)
    violations = json.loads((demo.folder / "orderly.json").read_text())["violations"]
    demo.check(f"Orderly group: out of order ({ROWS - WITHOUT_TAIL:,} checked)", 0, violations)
    demo.facts["Spark restart"] = f"stopped and restarted from its checkpoint at {stream.get('restarted'):,} rows"
    result = json.loads((demo.folder / "spark" / "hourly.json").read_text())
    found = {(carrier, hour): (count, known, delay) for carrier, hour, count, known, delay in result["hourly"]}
    expected = hourly(rows)
    demo.check("Parquet: rows", ROWS, stream.get("rows"))
    demo.check("Parquet: distinct flights", ROWS, result["distinct"])
    equal = sum(1 for key, value in expected.items() if found.get(key) == value)
    demo.check("Hourly table from Parquet: cells equal to the input's", len(expected), equal)
    demo.check("Hourly table from Parquet: cells the input has not", 0, len(found) - len(set(found) & set(expected)))


def crash_run(demo: Demo, namesrv: str, standalone: Part) -> None:
    """A second, short production; the broker is killed in it with SIGKILL and comes back."""
    create_topic(namesrv, CRASH_TOPIC)
    journal = demo.folder / "acknowledged.bin"
    producer = demo.part(
        "producer-crash", "demo.produce", namesrv, "--topic", CRASH_TOPIC, "--limit", CRASH_MESSAGES,
        "--journal", journal,
    )  # fmt: skip
    with console.status("Second run: the broker will be killed while it takes messages ..."):
        until(lambda: producer.get("acknowledged") >= CRASH_AFTER, LONGEST, "the second run to get going", demo.parts)
        os.kill(broker_pid(standalone.pid), signal.SIGKILL)
        killed = producer.get("acknowledged")
        until(lambda: producer.get("done", False), LONGEST, "the second run to end", demo.parts)
        demo.check("Crash run: every message acknowledged in the end", 0, producer.finished(LONGEST))
        reader = consumer(demo, namesrv, "after-crash", "demo-after-crash", "--topic", CRASH_TOPIC)
        quiet = Quiet(reader)
        until(lambda: quiet.settled(CRASH_MESSAGES), LONGEST, "the messages after the crash", demo.parts)
        reader.tell_to_stop()
        demo.check("Crash run: reader's exit status", 0, reader.finished(LONGEST))
    data = journal.read_bytes()
    acknowledged = Counter(row for (row,) in struct.iter_unpack(">I", data))
    seen = rows_of(demo, "after-crash")
    missing = sum(1 for row in acknowledged if not seen[row])
    demo.check("Crash run: acknowledged and lost", 0, missing)
    demo.check("Crash run: distinct flights", CRASH_MESSAGES, ROWS - seen.count(0))
    duplicates = sum(seen) - (ROWS - seen.count(0))
    demo.facts["Killed"] = f"with SIGKILL after about {killed:,} acknowledgements of {CRASH_MESSAGES:,}"
    demo.facts["Duplicates after the crash"] = (
        f"{duplicates:,} (legal: their answers were lost and they were sent again)"
    )


class Quiet:
    """Whether a reader has everything and nothing more comes."""

    def __init__(self, reader: Part) -> None:
        self._reader = reader
        self._count = -1
        self._since = 0.0

    def settled(self, least: int) -> bool:
        """True once at least so many came and the count stood still for two seconds."""
        count = self._reader.get("consumed")
        if count != self._count:
            self._count, self._since = count, time.monotonic()
        return count >= least and time.monotonic() - self._since > 2.0


def summary(demo: Demo) -> bool:
    """Print the summary and write the report; True when everything was right."""
    table = Table(title="Bolide demo", title_justify="left")
    for column in ("What", "Expected", "Found", ""):
        table.add_column(column, justify="left" if column in ("What", "") else "right")
    for check in demo.checks:
        table.add_row(check.what, check.expected, check.found, "[green]ok[/]" if check.good else "[red]WRONG[/]")
    console.print(table)
    for key, value in demo.facts.items():
        console.print(f"  {key}: {value}")
    return all(check.good for check in demo.checks)


def main() -> int:
    """Run the demo; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/demo"))
    folder = parser.parse_args().folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    console.print(f"Bolide, {_impl.describe()}; everything is below {folder}")
    demo = Demo(folder)
    rows = read_rows()
    try:
        standalone = demo.part(
            "standalone", "bolide", "standalone", "--store", folder / "store", "--namesrv-port", 0, "--broker-port", 0,
            *(word for setting in PATIENCE for word in ("--set", setting)),
        )  # fmt: skip
        until(lambda: standalone.ready, LONGEST, "the broker", demo.parts)
        namesrv = dict(word.split("=", 1) for word in standalone.ready.split())["namesrv"]
        console.print(f"Broker and name server run: {standalone.ready}")
        main_run(demo, namesrv, rows)
        crash_run(demo, namesrv, standalone)
        standalone.end()
        demo.check("Broker and name server: exit status after SIGTERM", 0, standalone.status)
    finally:
        demo.end()
    demo.facts["Whole run"] = f"{time.monotonic() - demo.begin:.0f} s on {os.cpu_count()} processors"
    demo.facts["Python"] = f"{platform.python_version()}, {_impl.describe()}"
    good = summary(demo)
    report = folder / "report.html"
    lags = dict.fromkeys((SHARED, ORDERLY, PARQUET), SENT)
    write_report(
        report, "Bolide demo: 336,776 departures", demo.checks, demo.samples, lags, hourly(rows), demo.facts, {PARQUET}
    )
    console.print(f"Report: {report}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
