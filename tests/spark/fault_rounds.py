"""Seeded rounds of faults: a checkpointed live source and an exactly-once sink lose nothing and repeat nothing.

`python -m tests.spark.fault_rounds --rounds 50` runs seeds 0 to 49 against one Bolide broker process, which the rounds
kill and start again. In each, one query copies a topic while its driver, its tasks, its commits and the broker die at
seeded moments; a driver that died is started again, until the query has read everything. The tasks of dead drivers live
on. Then every message of the round must be visible in the other topic once. At the end all rounds are looked at again:
what a forgotten task did late would show. The last `--spark-rounds` of them run in real Spark sessions, in a process of
their own that is killed with its JVM; in the others `simulated_query` plays Spark's part around the same classes.
With `--java` the broker is RocketMQ's own.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bolide.client import Message
from bolide.errors import BolideError
from bolide.layout.record import decode_records
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.fetch import RangeReader
from bolide.spark.source.ranges import Range
from bolide.spark.source.source_options import read_options
from proof.kit.children import start
from proof.kit.waiting import wait_until
from tests.client.patient_blocking import Admin
from tests.spark.broker_process import RestartableBroker
from tests.spark.produce import send
from tests.spark.simulated_query import POINTS, Plan, fork, run_driver

MOST_DEATHS = 4
"""After so many a driver is left alone, so that a round ends."""
ROUND_SECONDS = 400.0
MOST_SESSION_DEATHS = 2
SPARK_ROUND_SECONDS = 420.0


@dataclass
class Outcome:
    """What one round was."""

    seed: int
    rows: int
    deaths: int
    """Drivers that died."""
    broker_kills: int
    points: list[str]
    seconds: float
    wrong: str = ""


class Rounds:
    """Rounds that share one broker and one folder."""

    def __init__(self, folder: Path, java: bool = False) -> None:
        self._folder = folder
        self.broker = RestartableBroker(folder, java)
        self._namesrv = self.broker.namesrv.address
        self._sent: dict[int, Counter[bytes]] = {}

    def close(self) -> None:
        """End the broker."""
        self.broker.close()

    def run_spark(self, seed: int) -> Outcome:
        """One round in real sessions."""
        chance = random.Random(seed)
        outcome = self._begin(seed, chance)
        outcome.points.append("spark")
        began = time.monotonic()
        while not self._one_session(seed, chance, outcome):
            outcome.deaths += 1
            if time.monotonic() - began > SPARK_ROUND_SECONDS:
                outcome.wrong = f"not done within {SPARK_ROUND_SECONDS:g} s"
                break
        outcome.seconds = time.monotonic() - began
        outcome.wrong = outcome.wrong or self.check(seed)
        return outcome

    def _begin(self, seed: int, chance: random.Random) -> Outcome:
        """Topics, and the messages that are to be copied."""
        rows = chance.randrange(120, 400)
        self._topics(seed, chance.choice((1, 2, 4)))
        bodies = {b"%d-%d" % (seed, number) for number in range(rows)}
        while missing := bodies - set(self._visible(f"In{seed}")):  # a slow broker may store one twice
            self._send([Message(f"In{seed}", body, properties={"n": "1"}) for body in missing])
        self._sent[seed] = Counter(self._visible(f"In{seed}"))
        return Outcome(seed, self._sent[seed].total(), 0, 0, [], 0.0)

    def _send(self, messages: list[Message]) -> None:
        try:
            send(self._namesrv, messages)
        except BolideError as error:
            say(f"sending again: {error}")

    def _one_session(self, seed: int, chance: random.Random, outcome: Outcome) -> bool:
        """One process with a session: killed on the way, its workers or the broker killed, or left alone."""
        quiet = outcome.deaths >= MOST_SESSION_DEATHS
        log = self._folder / f"session-{seed}-{outcome.deaths}.out"
        with log.open("wb") as output:
            command = [sys.executable, "-m", "tests.spark.fault_query", str(self._folder), self._namesrv, str(seed)]
            session = start(command, stdout=output, stderr=output, start_new_session=True)
        try:
            wait_until(lambda: b"started" in log.read_bytes() or session.poll() is not None, "the session starts")
            began = time.monotonic()
            # A session reads nothing in its first second or two; after some ten it is done.
            faults = [] if quiet else sorted(
                (began + chance.uniform(1.0, 9.0), chance.choice(("driver", "worker", "worker", "broker")))
                for _ in range(2)
            )  # fmt: skip
            while session.poll() is None:
                while faults and time.monotonic() >= faults[0][0]:
                    self._strike(faults.pop(0)[1], session, outcome)
                if time.monotonic() - began > SPARK_ROUND_SECONDS:
                    os.killpg(session.pid, signal.SIGKILL)
                time.sleep(0.02)
            return session.returncode == 0
        finally:
            if session.poll() is None:
                os.killpg(session.pid, signal.SIGKILL)
            session.wait()

    def _strike(self, what: str, session: subprocess.Popen[bytes], outcome: Outcome) -> None:
        outcome.points.append(what)
        if what == "driver":
            os.killpg(session.pid, signal.SIGKILL)  # with its JVM; Python workers see it by their sockets
        elif what == "worker":
            for pid in _workers(session.pid)[:1]:
                os.kill(pid, signal.SIGKILL)
        else:
            outcome.broker_kills += 1
            self.broker.kill()
            self.broker.restart()

    def run(self, seed: int) -> Outcome:
        """One round; `wrong` of its outcome says what was lost or repeated."""
        chance = random.Random(seed)
        outcome = self._begin(seed, chance)
        began = time.monotonic()
        pids = self._folder / f"pids-{seed}"
        pids.mkdir()
        done = False
        while not done:
            done = self._one_driver(self._plan(seed, chance, outcome, pids), chance, outcome)
            if time.monotonic() - began > ROUND_SECONDS:
                outcome.wrong = f"not done within {ROUND_SECONDS:g} s"
                break
        wait_until(lambda: not any(_lives(pid) for pid in _pids(pids)), "forgotten tasks end", 240)
        outcome.seconds = time.monotonic() - began
        outcome.wrong = outcome.wrong or self.check(seed)
        return outcome

    def check(self, seed: int) -> str:
        """What is lost or repeated in the round of this seed; "" when nothing is."""
        seen = Counter(self._visible(f"Out{seed}"))
        lost, repeated = list(self._sent[seed] - seen), list(seen - self._sent[seed])
        if not (lost or repeated):
            return ""
        return f"lost {len(lost)} {lost[:3]}, repeated {len(repeated)} {repeated[:3]}"

    def _plan(self, seed: int, chance: random.Random, outcome: Outcome, pids: Path) -> Plan:
        checkpoint = str(self._folder / f"checkpoint-{seed}")
        quiet = outcome.deaths >= MOST_DEATHS
        crash = "" if quiet else chance.choice((*POINTS, "", ""))
        if crash:
            outcome.points.append(crash)
        return Plan(
            checkpoint=checkpoint,
            source={"namesrv": self._namesrv, "subscribe": f"In{seed}", "startingOffsets": "earliest"},
            sink={
                "namesrv": self._namesrv,
                "topic": f"Out{seed}",
                "mode": "exactly-once",
                "checkpointLocation": checkpoint,
                "requestTimeoutMs": "3000",
                "deliveryTimeoutMs": "30000",
            },
            rows_per_batch=chance.choice((30, 60, 150)),
            expected=outcome.rows,
            seed=chance.randrange(1 << 30),
            crash=crash,
            crash_after=chance.randrange(1, 60) if crash == "in_commit" else chance.randrange(1, 4),
            twice=0.3,
            broken=0.0 if quiet else chance.choice((0.15, 0.15, 0.6)),
            slow=chance.choice((0.0, 0.02, 0.1)),
            pids=pids,
        )

    def _one_driver(self, plan: Plan, chance: random.Random, outcome: Outcome) -> bool:
        """Start a driver and let the round's faults happen; True when the query is done."""
        sys.stdout.flush()
        quiet = outcome.deaths >= MOST_DEATHS
        driver = fork(lambda: run_driver(plan))
        began = time.monotonic()
        dies_at = began + chance.uniform(0.05, 2.5) if not quiet and chance.random() < 0.5 else float("inf")
        broker_at = began + chance.uniform(0.05, 1.5) if not quiet and chance.random() < 0.35 else float("inf")
        while True:
            pid, status = os.waitpid(driver, os.WNOHANG)
            if pid:
                outcome.deaths += status != 0
                return status == 0
            now = time.monotonic()
            if now >= broker_at:
                broker_at = float("inf")
                outcome.broker_kills += 1
                self.broker.kill()
                time.sleep(chance.uniform(0.0, 1.0))
                self.broker.restart()
            if now >= dies_at or now - began > ROUND_SECONDS:
                os.kill(driver, signal.SIGKILL)  # its tasks and its commit live on
                dies_at = float("inf")
            time.sleep(0.01)

    def _topics(self, seed: int, queues: int) -> None:
        with Admin(self._namesrv) as admin:
            for topic in (f"In{seed}", f"Out{seed}"):
                admin.create_topic(topic, queues=queues)

    def _visible(self, topic: str) -> Iterator[bytes]:
        options = read_options({"namesrv": self._namesrv, "subscribe": topic})
        cluster = Cluster(options)
        try:
            queues = cluster.queues([topic])
            for queue, end in cluster.latest(queues).items():
                reader = RangeReader(Range(queue, 0, end), cluster.members(queue.broker), options)
                for data, _ in reader.chunks():
                    yield from (record.body for record in decode_records(data))
                reader.close()
        finally:
            cluster.close()


def _pids(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir()]


def _lives(pid: int) -> bool:
    """Whether a process that a driver forked still runs; the dead ones of dead drivers wait for nobody's call."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _workers(root: int) -> list[int]:
    """The Python workers below a driver: children of Spark's daemon, which is a child of its JVM."""
    parents: dict[int, int] = {}
    daemons = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            if b"pyspark.daemon" in (path.parent / "cmdline").read_bytes():
                daemons.add(int(path.parent.name))
        except OSError:
            continue

    def below(pid: int) -> bool:
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root

    return sorted(pid for pid, parent in parents.items() if parent in daemons and below(pid))


def say(line: str) -> None:
    """One line of progress."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """The command line; exit status 1 when a round lost or repeated something."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--spark-rounds", type=int, default=4, help="how many of them run in real sessions")
    parser.add_argument("--java", action="store_true", help="against a Java broker 5.5.0")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", help="these seeds, with commas, instead")
    given = parser.parse_args()
    seeds = [int(seed) for seed in given.seeds.split(",")] if given.seeds else []
    seeds = seeds or list(range(given.first_seed, given.first_seed + given.rounds))
    folder = Path(tempfile.mkdtemp(prefix="fault-rounds-"))
    rounds = Rounds(folder, given.java)
    wrong = 0
    deaths = kills = rows = 0
    try:
        for number, seed in enumerate(seeds):
            outcome = (rounds.run if number < len(seeds) - given.spark_rounds else rounds.run_spark)(seed)
            wrong += bool(outcome.wrong)
            deaths, kills, rows = deaths + outcome.deaths, kills + outcome.broker_kills, rows + outcome.rows
            say(
                f"seed {seed}: {outcome.rows} rows, {outcome.deaths} drivers and {outcome.broker_kills} brokers died, "
                f"{outcome.seconds:.1f} s {','.join(outcome.points)} {outcome.wrong or 'right'}"
            )
        late = {seed: found for seed in seeds if (found := rounds.check(seed))}
    finally:
        rounds.close()
        shutil.rmtree(folder, ignore_errors=True)
    say(
        f"{len(seeds)} rounds, {rows} rows, {deaths} drivers and {kills} brokers killed: {wrong} wrong, "
        f"{len(late)} wrong at the end"
    )
    return 1 if wrong or late else 0


if __name__ == "__main__":
    sys.exit(main())
