"""The jobs of the pipeline in real Spark, killed, interrupted and run twice at once, judged as the direct runs are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException

from bolide.errors import BolideError
from bolide.job_progress import JobProgress
from bolide.spark.failures import job_failed
from bolide.spark.jobs.archive import archive
from bolide.spark.jobs.mirror import mirror
from bolide.spark.jobs.redrive import redrive
from bolide.spark.jobs.replay import replay
from bolide.spark.session.session import environment
from proof.sequences.brokers import Brokers, Sent
from proof.sequences.checkpointed import Found, Query
from proof.sequences.sessions import Session
from proof.sequences.steps import Heard, Step, Wrong
from proof.sequences.topic_runs import Reading, TopicRuns, key

SPARK_JOBS = ("read", "archive", "interrupted", "twice", "killed", "mirror", "replay", "redrive")
COLUMNS = ("broker", "queue_id", "queue_offset", "offset_message_id", "body")
KILL_AFTER_S = 90.0


class SparkRuns(TopicRuns):
    """The runs over one topic, in a session."""

    last = ("read",)

    def __init__(self, brokers: Brokers, topic: str, folder: Path, number: int, session: Session) -> None:
        super().__init__(brokers, topic, folder, number)
        self._spark = session.spark
        self._archive = folder / "archive"
        self._kept = Reading(Query(dict), {})
        self._readings = {"archive": self._kept}
        self._letters = 0
        self._exactly = number % 2 == 0
        self._given = {**self._options, "maxOffsetsPerTrigger": "9"}
        del self._given["startingOffsets"]

    # -- batch reads, and the archive

    def _read(self, step: Step, heard: Heard) -> str:
        def run() -> list[Found]:
            try:
                return self._collect(self._spark.read.format("rocketmq").options(**self._options).load())
            except PySparkException as failed:
                raise job_failed(failed) from None

        rows, error = self._tried(run)
        wanted = self._truth()
        if error is not None:
            return f"spark.read: {self._allowed(error, wanted, False)}"
        got = self._checked(rows, wanted, once=True)
        for broker, row in wanted:
            if key(broker, row) not in got and not (row.sent_body is None and self._bodies == "drop"):
                raise self._missing("spark.read", broker, row)
        return f"spark.read: {len(rows)} rows"

    def _run_archive(self, loose: bool = False, progress: Callable[[Any], None] = lambda _: None) -> Any:
        options = self._given | ({"failOnDataLoss": "false"} if loose else {})
        return archive(self._spark, str(self._archive), options, progress=progress)

    def _archive_step(self, step: Step, heard: Heard) -> str:
        self._kept.loose = step.pick[1] % 5 == 1
        said = "archive" + (" failOnDataLoss=false" if self._kept.loose else "")
        _, error = self._tried(lambda: self._run_archive(self._kept.loose))
        return f"{said}: {self._archived(error, heard, False, said)}"

    def _interrupted(self, step: Step, heard: Heard) -> str:
        def stop(now: JobProgress) -> None:
            if now.done < now.total:
                raise KeyboardInterrupt

        _, error = self._tried(lambda: self._run_archive(progress=stop))
        return f"archive, interrupted after a batch: {self._archived(error, heard, True, 'archive')}"

    def _killed(self, step: Step, heard: Heard) -> str:
        """The verb in a process of its own, killed with its JVM once its first batch is committed."""
        options = [word for name, value in self._given.items() if name not in ("namesrv", "subscribe")
                   for word in ("--option", f"{name}={value}")]  # fmt: skip
        command = [sys.executable, "-m", "bolide.cli", "pipeline", "archive", self._topic, "--out", str(self._archive),
                   "-n", self._brokers.address, "--master", "local[2]", *options]  # fmt: skip
        done = len(list(self._archive.glob("_checkpoint/commits/[0-9]*")))
        with (self._archive.parent / "killed.out").open("ab") as output:
            job = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True, env=environment())
            until = time.monotonic() + KILL_AFTER_S
            while job.poll() is None and time.monotonic() < until:
                if len(list(self._archive.glob("_checkpoint/commits/[0-9]*"))) > done:
                    break
                time.sleep(0.02)
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        return f"archive as a process, killed after a batch: {self._archived(None, heard, True, 'archive')}"

    def _twice(self, step: Step, heard: Heard) -> str:
        """Two at once: one of them may be refused."""
        errors = at_once(self._spark, self._run_archive)
        refused = [error for error in errors if type(error).__name__ == "AlreadyRunning"]
        others = [error for error in errors if error is not None and error not in refused]
        if len(refused) == 2:
            raise Wrong("two archives at once: both are refused")
        error = others[0] if others else None
        return f"two archives at once, {len(refused)} refused: {self._archived(error, heard, False, 'archive')}"

    def _archived(self, error: BolideError | None, heard: Heard, killed: bool, said: str) -> str:
        """Judge the whole archive: each message of it once, and with those that went before all that there are."""
        reading = self._kept
        rows: list[Found] = []
        if (self._archive / "_spark_metadata").exists() and any(self._archive.rglob("*.parquet")):
            rows = self._collect(self._spark.read.parquet(str(self._archive)))
        reading.seen, reading.judged = set(), set()
        reading.query.sink = {0: rows}
        place = self._archive / "_checkpoint"
        reading.query.commits = {int(path.name) for path in place.glob("commits/[0-9]*") if path.name.isdecimal()}
        reading.query.offsets = {
            number: (place / "offsets" / str(number)).read_text().splitlines()[2] for number in reading.query.commits
        }
        if reading.loose:
            heard.lines += [str(name) for name in self._places()]  # said in processes that nobody hears here
        if self._bodies == "drop":
            heard.lines.append("left out 1 messages whose bodies cannot be read")
        return self._streamed(reading, error, heard, killed, said)

    def _places(self) -> list[str]:
        return [f"{self._topic}@{server.name}:{number}" for server in self._brokers.servers for number in range(16)]

    # -- jobs that send

    def _mirror_step(self, step: Step, heard: Heard) -> str:
        if self._bodies == "column":
            return ""
        self._prepare(f"M-{self._topic}")
        target = {"namesrv": self._brokers.address} | ({"mode": "exactly-once"} if self._exactly else {})
        checkpoint = str(self._folder / "mirror")
        run = lambda: mirror(self._spark, self._given, target, checkpoint=checkpoint, prefix="M-")  # noqa: E731 # run twice
        twice = step.pick[0] % 3 == 1
        errors = at_once(self._spark, run) if twice else [self._tried(run)[1]]
        errors = [error for error in errors if type(error).__name__ != "AlreadyRunning"]
        said = "mirror" + (" run twice at once" if twice else "") + (" exactly once" if self._exactly else "")
        bad = next((error for error in errors if error is not None), None)
        if bad is not None:
            return f"{said}: {self._allowed(bad, self._truth(), True)}"
        wanted = [row.sent_body for _, row in self._truth() if row.sent_body is not None]
        return f"{said}: {self._sent_all(said, f'M-{self._topic}', wanted, self._exactly)}"

    def _replay(self, step: Step, heard: Heard) -> str:
        if not (self._archive / "_spark_metadata").exists():
            return ""
        self._prepare(f"R-{self._topic}")
        options = {"namesrv": self._brokers.address} | ({"mode": "exactly-once"} if self._exactly else {})
        checkpoint = str(self._folder / "replay")
        _, error = self._tried(
            lambda: replay(self._spark, str(self._archive), options, checkpoint=checkpoint, topic=f"R-{self._topic}")
        )
        if error is not None:
            return f"replay: {self._allowed(error, self._truth(), True)}"
        rows = self._collect(self._spark.read.parquet(str(self._archive)))
        wanted = [bytes(row["body"]) for row in rows if row["body"] is not None]
        return f"replay: {self._sent_all('replay', f'R-{self._topic}', wanted, self._exactly)}"

    def _redrive(self, step: Step, heard: Heard) -> str:
        group, back = f"G-{self._topic}", f"D-{self._topic}"
        self._prepare(f"%DLQ%{group}")
        self._prepare(back)
        server = self._brokers.up[0]
        letters = []
        for _ in range(1 + step.one(0, 7)):
            self._letters += 1
            properties = f"RETRY_TOPIC\1{back}\2UNIQ_KEY\1{back}-{self._letters}\2"
            letters.append(Sent(self._letters, f"letter {self._letters}".encode(), properties, 0))
        queues = self._brokers.route(f"%DLQ%{group}")[server.name]
        sent = [Sent(one.queue_id % queues, one.body, one.properties, 0) for one in letters]
        self._brokers.send(server, f"%DLQ%{group}", sent)
        run = lambda: redrive(self._spark, group, {"namesrv": self._brokers.address})  # noqa: E731 # run twice
        twice = step.pick[1] % 2 == 1
        errors = at_once(self._spark, run) if twice else [self._tried(run)[1]]
        bad = [error for error in errors if error is not None and type(error).__name__ != "AlreadyRunning"]
        if bad:
            raise Wrong(f"redrive: an error without a reason: {bad[0]}")
        wanted = [f"letter {number}".encode() for number in range(1, self._letters + 1)]
        said = "redrive" + (" run twice at once" if twice else "")
        return f"{said}: {self._sent_all(said, back, wanted, True)}"

    def _prepare(self, topic: str) -> None:
        route = self._brokers.route(topic)
        for server in self._brokers.up:
            if server.name not in route:
                self._brokers.set_topic(server, topic, 2)

    def _sent_all(self, said: str, topic: str, wanted: list[bytes], once: bool) -> str:
        held = Counter(row.sent_body for server in self._brokers.up for row in server.rows(topic))
        lacking = [body for body in wanted if body not in held]
        if lacking:
            first = lacking[0][:40]
            raise Wrong(f"{said}: no error, and {len(lacking)} messages are not in {topic}, the first {first!r}")
        if once and (more := [body for body, count in held.items() if count > 1]):
            raise Wrong(f"{said}: {len(more)} messages came twice to {topic}, the first {more[0]!r}")
        return f"{held.total()} messages in {topic}"

    def _collect(self, frame: Any) -> list[Found]:
        rows = frame.select(*COLUMNS).collect()
        return [{**row.asDict(), "body": None if row.body is None else bytes(row.body)} for row in rows]

    def do(self, step: Step) -> str:
        """One run, and the judgement. Raises Wrong."""
        names = {"archive": "archive_step", "mirror": "mirror_step"}
        return super().do(Step(names.get(step.name, step.name), step.pick))


def at_once(spark: Any, run: Callable[[], Any]) -> list[BolideError | None]:
    """The errors of two runs on threads of their own, begun together. Raises Wrong if one crashes."""
    errors: list[BaseException | None] = [None, None]
    begin = threading.Barrier(2)

    def one(number: int) -> None:
        # Spark looks for data sources in the session of the thread; a new one has none.
        type(spark)._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
        begin.wait()
        try:
            run()
        except BaseException as error:
            errors[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        if error is not None and not isinstance(error, BolideError):
            raise Wrong(f"a run crashed with {type(error).__name__}: {error}") from error
    return [error for error in errors if error is None or isinstance(error, BolideError)]
