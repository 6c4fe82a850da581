"""One soak: starts the processes, measures until the time is over, stops the traffic, judges, and writes the page."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bolide import _impl
from bolide.admin.client import Admin
from bolide.client import BolideError
from bolide.remoting import codes
from proof.kit.command_line import on_interrupt
from proof.kit.journal import Follower
from proof.soak.accounts import Accounts, Fault
from proof.soak.cluster import Cluster, Failed, age_log_files, topics
from proof.soak.events import events_of
from proof.soak.page import Check, Report, write_page
from proof.soak.samples import (
    ANSWER,
    BLOCKS,
    LATENESS,
    OWED_S,
    TABLES,
    LoopTimes,
    Measurements,
    measure_disk,
    measure_process,
)
from proof.soak.series import Limit, Series, State, Verdict
from proof.soak.streams import READERS, SHARES, Stream

CLIENTS = ("consumers", "senders", "churn")
JOURNALS = ("sent", "consumed", "churn")
SETTLE_S = 120.0
"""After the traffic: this long without progress, and what is outstanding counts as lost."""
LOOK_S = 0.2
"""How often the run looks whether its processes still run."""
ASKED = 3
"""Answers of a sample whose times are compared."""
MOST_FAILED = 0.001
"""Share of the sends that may fail: the rate is far below the limit."""
HARMFUL = ("changed bodies", "out of order", "failed visits")
"""Counts of the clients that have to stay at 0."""
FLOWS = (
    *(f"consumed ({reader.name})" for reader in READERS),
    *("replies", "recalled", "sent back", "consumed (trace)", "visits", "guests", "resets", "looks", "knocks"),
    *("log files rolled", "log files deleted"),
)
"""Counts each of which rises while all kinds of traffic flow."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for."""

    folder: Path
    seconds: float
    rate: float
    every: float
    """Seconds between samples."""
    warm_up: float
    keep: float
    """Seconds that log files are kept for."""
    quick: bool
    """End as soon as everything has flowed."""
    command: str


@dataclass(frozen=True, slots=True)
class Result:
    """How it went."""

    good: bool
    verdict: str
    page: Path
    counts: dict[str, int]


class Soak:
    """See the module. `say` takes lines of progress, `said_every` is how many seconds pass between them."""

    def __init__(self, plan: Plan, say: Callable[[str], None], said_every: float) -> None:
        self._plan = plan
        self._say = say
        self._said_every = said_every
        self._cluster = Cluster(plan.folder, plan.rate, plan.quick)
        self._accounts = Accounts()
        self._measurements = Measurements()
        self._loop_times = LoopTimes()
        self._journals = [Follower(plan.folder / f"{name}.journal") for name in JOURNALS]
        self._begin = time.monotonic()
        self._interrupted = 0
        self._deleted = 0
        self._rolled = 0
        self._runtime: dict[str, str] = {}
        self._asked = asyncio.Event()

    # -- the run

    async def run(self) -> Result:
        """Everything, from the first process to the page."""
        on_interrupt(self._interrupt)
        trouble: list[str] = []
        settled = False
        try:
            namesrv = await asyncio.to_thread(self._cluster.start_servers)
            async with Admin(namesrv, timeout=30.0, instance_name="soak") as admin:
                for topic, queues in topics().items():
                    await admin.create_topic(topic, queues=queues)
                await asyncio.to_thread(self._cluster.start_clients, namesrv)
                self._begin = time.monotonic()
                await self._measure_until_the_end(admin)
                settled = await self._settle(admin)
        except (Failed, BolideError) as error:
            trouble.append(str(error))
        finally:
            trouble += await asyncio.to_thread(self._cluster.end)
        self._take_journals()
        return self._report(trouble, settled)

    def _interrupt(self) -> None:
        self._interrupted += 1
        self._asked.set()
        self._say("interrupted: the traffic stops, and the page follows; once more: the page at once")

    def _second(self) -> float:
        return time.monotonic() - self._begin

    async def _measure_until_the_end(self, admin: Admin) -> None:
        said = 0.0
        sampled = 0
        while not self._is_over():
            if self._second() >= sampled * self._plan.every:
                sampled += 1
                await self._sample(admin)
            if self._second() - said >= self._said_every:
                said = self._second()
                self._say(self.progress())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._asked.wait()
            self._cluster.check()

    def _is_over(self) -> bool:
        if self._interrupted or self._second() >= self._plan.seconds:
            return True
        return self._plan.quick and not self.missing()

    def missing(self) -> list[str]:
        """Kinds of traffic that have not been seen yet."""
        counts = self.counts()
        return [what for what in FLOWS if not counts.get(what)]

    def counts(self) -> dict[str, int]:
        """What has happened so far."""
        return {**self._cluster.counts(), "log files rolled": self._rolled, "log files deleted": self._deleted}

    def progress(self) -> str:
        """A line of progress."""
        latest = {(series.group, series.name): series.values[-1] for series in self._measurements.series.values()}
        owed = sum(value for (group, _), value in latest.items() if group == "Owed to readers")
        memory = latest.get(("Resident memory", "broker"), 0.0)
        blocks = latest.get(("Blocks of objects", "broker"), 0.0)
        failed = f", {self._accounts.failed:,} failed" if self._accounts.failed else ""
        return (
            f"{self._second():6.0f} s  {self._accounts.acknowledged:,} acknowledged{failed}, "
            f"{owed:,.0f} owed, broker {memory:.1f} MiB, {blocks:,.0f} blocks"
        )

    # -- one sample

    async def _sample(self, admin: Admin) -> None:
        second = self._second()
        for process in self._cluster.processes:
            measure_process(self._measurements, second, process.name, process.pid)
        for name in CLIENTS:
            blocks = self._cluster.named(name).said.get("blocks")
            if blocks:
                self._measurements.add("Blocks of objects", name, "", BLOCKS, (second, blocks))
        measure_disk(self._measurements, second, self._cluster.store)
        self._take_journals()
        self._accounts.mark(time.time())
        self._measure_messages(second)
        try:
            await self._ask(admin, second)
        except BolideError as error:
            self._say(f"a sample lacks the broker's figures: {error}")
        await self._retention(admin)

    def _take_journals(self) -> None:
        for journal in self._journals:
            self._accounts.take(events_of(journal.entries()))

    def _measure_messages(self, second: float) -> None:
        for reader in READERS:
            allowed = max(50.0, OWED_S * self._plan.rate * SHARES[reader.stream] / 100)
            owed = self._accounts.outstanding(reader)
            self._measurements.add("Owed to readers", reader.name, "messages", Limit(allowed, 0), (second, owed))
        for stream in (Stream.LEVEL, Stream.TIMER):
            late = self._accounts.lateness(stream)
            if late is not None:
                self._measurements.add("Lateness at the consumer", stream.value, "ms", LATENESS, (second, late))

    async def _ask(self, admin: Admin, second: float) -> None:
        """What the broker says of itself, how fast it and the name server answer, and how long their tables are."""
        broker = self._cluster.named("broker").address

        async def runtime() -> None:
            self._runtime = await admin.broker_runtime(broker)

        async def routes() -> None:
            await admin.cluster_info()

        for name, ask in (("broker", runtime), ("name server", routes)):
            took = [await timed(ask) for _ in range(ASKED)]
            self._measurements.add("Time of an answer", name, "ms", ANSWER, (second, median(took) * 1000))
        blocks = int(self._runtime.get("processAllocatedBlocks", "0"))
        self._measurements.add("Blocks of objects", "broker", "", BLOCKS, (second, blocks))
        self._loop_times.measure(self._measurements, second, self._runtime)
        known = len(await admin.topics(system=True))
        self._measurements.add("Tables", "topics", "", TABLES, (second, known))
        self._measurements.add("Tables", "groups", "", TABLES, (second, len(await admin.groups())))

    async def _retention(self, admin: Admin) -> None:
        """Let what everybody has got look old, and have it deleted."""
        before = min(time.time() - self._plan.keep, self._accounts.settled_before() - 1)
        aged = await asyncio.to_thread(age_log_files, self._cluster.store, before)
        if aged and self._plan.quick:  # else the broker comes by itself
            await admin.ask(self._cluster.named("broker").address, codes.TRIGGER_DELETE_FILES)
        names = sorted(os.listdir(self._cluster.store / "commitlog"))
        if names:
            size = (self._cluster.store / "commitlog" / names[0]).stat().st_size
            self._deleted = int(names[0]) // size
            self._rolled = int(names[-1]) // size

    # -- the end

    async def _settle(self, admin: Admin) -> bool:
        """Stop the traffic and wait for what is under way; False if the wait was interrupted."""
        for name in ("senders", "churn"):
            self._cluster.named(name).tell("stop")
        deadline = time.monotonic() + SETTLE_S
        left = -1
        while time.monotonic() < deadline:
            if self._interrupted > 1:
                return False
            self._cluster.check()
            self._take_journals()
            now_left = sum(self._accounts.outstanding(reader) for reader in READERS)
            if now_left != left:
                left, deadline = now_left, time.monotonic() + SETTLE_S
            done = all("done" in self._cluster.named(name).counts() for name in ("senders", "churn"))
            if done and left == 0:
                break
            await asyncio.sleep(0.2)
        await self._sample(admin)
        # What must not come would come about now: a recalled timer, a transaction that was rolled back.
        await asyncio.sleep(3.0 if self._plan.quick else 25.0)
        return True

    def _report(self, trouble: list[str], settled: bool) -> Result:
        judged = self._measurements.judged(self._plan.warm_up)
        faults = list(self._accounts.faults()) if settled else []
        checks = self._checks(trouble, faults, settled)
        growing = [f"{series.group}: {series.name}" for series, verdict in judged if verdict.state is State.GROWS]
        bad = [check.what for check in checks if not check.good]
        good = not growing and not bad
        unjudged = [series for series, verdict in judged if verdict.state is State.NOT_JUDGED]
        verdict = self._verdict(growing, bad, len(unjudged), settled)
        page = self._plan.folder / "soak.html"
        title = f"Bolide soak: {span(self._second())} at {self._plan.rate:g} messages a second"
        write_page(page, Report(title, verdict, good, checks, judged, self._plan.warm_up, self._facts()))
        self._write_json(judged, verdict, good)
        return Result(good, verdict, page, self.counts())

    def _verdict(self, growing: Sequence[str], bad: Sequence[str], unjudged: int, settled: bool) -> str:
        judged = len(self._measurements.series)
        said = ["interrupted"] if self._interrupted else []
        if growing:
            said.append(f"{len(growing)} of {judged} series grow: {', '.join(growing)}")
        elif unjudged == judged:
            said.append("the run was too short to judge whether anything grows")
        else:
            not_judged = f" ({unjudged} too short to judge)" if unjudged else ""
            said.append(f"all {judged - unjudged} series are flat{not_judged}")
        if bad:
            said.append("wrong: " + ", ".join(bad))
        elif settled:
            said.append("each acknowledged message reached each reader that wanted it")
        return "; ".join(said)

    def _checks(self, trouble: Sequence[str], faults: Sequence[Fault], settled: bool) -> list[Check]:
        accounts, counts = self._accounts, self.counts()
        allowed = int(MOST_FAILED * (accounts.acknowledged + accounts.failed))
        checks = [
            Check("Processes that ended badly", "none", "; ".join(trouble) or "none", not trouble),
            Check(
                "Sends that failed", f"at most {allowed:,}",
                f"{accounts.failed:,} of {accounts.acknowledged + accounts.failed:,}", accounts.failed <= allowed,
            ),
        ]  # fmt: skip
        if not settled:
            checks.append(Check("All messages accounted for", "yes", "the run ended before", not trouble))
        found = "; ".join(f"{each.what} ({each.detail})" for each in faults) or "none"
        checks.append(Check("Broken promises", "none", found, not faults))
        checks += [Check(f"Clients: {what}", "0", f"{counts.get(what, 0):,}", not counts.get(what)) for what in HARMFUL]
        missing = self.missing()
        flowed = not missing or self._interrupted > 0
        checks.append(Check("Kinds of traffic that never flowed", "none", ", ".join(missing) or "none", flowed))
        return checks

    def _facts(self) -> dict[str, str]:
        accounts, counts = self._accounts, self.counts()
        facts = {
            "Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "Command": self._plan.command,
            "Machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
            "Python": f"{platform.python_version()}, {_impl.describe()}",
            "Measured": f"{span(self._second())}, a sample every {self._plan.every:g} s, the first "
            f"{span(self._plan.warm_up)} as warm-up",
            "Messages": f"{accounts.acknowledged:,} acknowledged, {accounts.recalled:,} of them recalled, "
            f"{accounts.consumed:,} deliveries to {len(READERS)} readers, {accounts.repeated():,} of them repeated "
            "(legal: at least once, and one reader is reset)",
            "Log files": f"{self._rolled:,} rolled, {self._deleted:,} deleted",
            "Came and went": f"{counts.get('visits', 0):,} topics, groups and clients; {counts.get('guests', 0):,} "
            f"members of a group; {counts.get('resets', 0):,} resets; {counts.get('looks', 0):,} looks of operators; "
            f"{counts.get('knocks', 0):,} times connections without a client",
            "Longest turn": f"{self._runtime.get('loopTurnTimeMax', '?')} ms; the timer of the loop rang at most "
            f"{self._runtime.get('loopTimerLateTimeMax', '?')} ms late",
        }
        failed = {what: count for what, count in sorted(counts.items()) if what.startswith("failed ")}
        if failed:
            facts["What failed"] = ", ".join(f"{what[len('failed ') :]} {count:,}" for what, count in failed.items())
            errors = [str(process.said.get("error", "")) for process in self._cluster.processes]
            facts["Last errors"] = " | ".join(error for error in errors if error)
        return facts

    def _write_json(self, judged: Sequence[tuple[Series, Verdict]], verdict: str, good: bool) -> None:
        """The same figures for programs."""
        rows = [
            {
                "group": series.group, "name": series.name, "unit": series.unit, "state": judgement.state.value,
                "first": series.values[0], "last": series.values[-1], "hourly": judgement.hourly,
                "rise": judgement.rise, "allowed": judgement.allowed, "seconds": series.seconds,
                "values": series.values,
            }
            for series, judgement in judged
        ]  # fmt: skip
        content = {"good": good, "verdict": verdict, "counts": self.counts(), "facts": self._facts(), "series": rows}
        (self._plan.folder / "soak.json").write_text(json.dumps(content, indent=1))


async def timed(ask: Callable[[], Awaitable[None]]) -> float:
    """Seconds that a call takes."""
    begin = time.perf_counter()
    await ask()
    return time.perf_counter() - begin


def span(seconds: float) -> str:
    """A length of time in words."""
    if seconds < 180:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def linux() -> None:
    """Raise SystemExit on a machine that has no /proc."""
    if not Path("/proc/self/statm").exists():
        sys.exit("the soak reads memory, descriptors and threads from /proc: run it on Linux")
