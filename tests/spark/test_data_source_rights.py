"""The rights in the table of docs/security.md are enough for Spark, and none of them is too many."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.spark import LagListener
from bolide.spark.data_source import RocketMQReader
from bolide.spark.errors import NotPermitted, RowRefused
from bolide.spark.sink.committing import CommitParts
from bolide.spark.sink.messages import Task
from bolide.spark.source.bounds import batch_offsets
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.key_lookup import TAIL, tasks_by_keys
from bolide.spark.source.queues import Queue
from bolide.spark.source.source_options import SourceOptions, read_options
from bolide.spark.source.stream_run import StreamRun
from bolide.testing.broker import Broker
from tests.spark.acl import guarded, options_of
from tests.spark.schemas import SCHEMA
from tests.spark.sink_rounds import Dies, Stopped, commit, write

PAGE = Path(__file__).parent.parent.parent / "docs" / "security.md"
RESOURCES = ("Topic:T", "Group:bolide-spark", "Cluster:*")
"""Resources of the columns of the table."""
QUEUE = Queue("T", "broker-a", 0)
COUNT = TAIL + 20
BODIES = [b"%d" % number for number in range(10)]

Rights = Mapping[str, list[str]]


class Refused(Exception):
    """A broker refused a request, and Spark found another way."""


@dataclass
class Run:
    """A user who does something."""

    broker: Broker
    user: str
    folder: Path

    def options(self, streaming: bool = False, **more: str) -> SourceOptions:
        given = {**options_of(self.broker, self.user), "subscribe": "T", "startingOffsets": "earliest"}
        return read_options(given | more, streaming)

    def sink(self, **more: str) -> dict[str, str]:
        return {**options_of(self.broker, self.user), "topic": "T", **more}

    def once(self) -> dict[str, str]:
        return self.sink(mode="exactly-once", checkpointLocation=str(self.folder))


class Watched(Cluster):
    """A cluster that counts refused requests, and whose brokers never changed their settings."""

    refused = 0

    def ask(self, broker: str, commands: list[Command]) -> list[Command]:
        answers = super().ask(broker, commands)
        self.refused += sum(answer.code == codes.NO_PERMISSION for answer in answers)
        if commands[0].code == codes.GET_BROKER_CONFIG and answers[0].code == codes.SUCCESS:
            version = json.loads(answers[0].ext()["version"]) | {"timestamp": 0}
            answers[0].ext()["version"] = json.dumps(version)
        return answers

    def check(self) -> None:
        if self.refused:
            raise Refused


def reads(run: Run) -> None:
    reader = RocketMQReader(run.options(startingOffsets="group"), SCHEMA)
    assert sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task)) >= COUNT
    options = run.options(streaming=True)
    with closing(Cluster(options)) as cluster:
        stream = StreamRun(cluster, options)
        end = stream.next_end(stream.start(), 0, 0)
        assert end is not None
        assert end.reached[QUEUE] >= COUNT


def commits(run: Run) -> None:
    reads(run)
    with closing(Cluster(run.options(streaming=True, commitOffsets="true"))) as cluster:
        cluster.queues(["T"])
        cluster.commit({QUEUE: 0})


def finds_offsets(run: Run) -> None:
    reads(run)
    with closing(Watched(run.options())) as cluster:
        cluster.queues(["T"])
        cluster.by_time({QUEUE: 0})
        cluster.check()


def looks_up(run: Run) -> None:
    reads(run)
    options = run.options(keys="k")
    with closing(Watched(options)) as cluster:
        cluster.queues(["T"])
        tasks_by_keys(cluster, options, *batch_offsets(cluster, options))
        cluster.check()


def shows_lag(run: Run) -> None:
    listener = LagListener(**options_of(run.broker, run.user))
    source = SimpleNamespace(endOffset='{"queues": {"T": {"broker-a": {"0": 0}}}}', latestOffset=None)
    listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(name="q", id="q", runId="r", sources=[source])))
    (lag,) = listener.lags()
    if not lag.behind:
        raise Refused
    assert lag.total >= COUNT


def writes(run: Run) -> None:
    write(run.sink(), Task("q", 0, 0), BODIES)


def writes_once(run: Run) -> None:
    commit(run.once(), [write(run.once(), Task("q", 0, 0), BODIES)], 0)


def continues(run: Run) -> None:
    written = [write(run.once(), Task("q", 0, 0), BODIES)]
    with pytest.raises(Stopped):
        commit(run.once(), written, 0, CommitParts(ender=Dies))
    commit(run.once(), written, 0)


ACTIONS: Mapping[str, Callable[[Run], None]] = {
    "reads a topic": reads,
    "commits the progress": commits,
    "finds offsets": finds_offsets,
    "looks up": looks_up,
    "shows the lag": shows_lag,
    "writes at least once": writes,
    "writes exactly once": writes_once,
    "continues": continues,
}
"""By the first words of a row."""


STRICT = "authorizationStrict"


def table(strict: bool = True) -> dict[str, Rights]:
    """The rights of each row, by its first cell, of a broker with or without `authorizationStrict`."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition("| Spark | topic | group | cluster |\n|---|---|---|---|\n")
    found = {}
    for line in rest.partition("\n\n")[0].splitlines():
        what, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        given = {
            resource: re.findall(r"`([A-Z]\w+)`", cell)
            for resource, cell in zip(RESOURCES, cells, strict=True)
            if strict or STRICT not in cell
        }
        found[what] = {resource: actions for resource, actions in given.items() if actions}
    return found


def fewer(rights: Rights) -> Iterator[Rights]:
    """Yield the rights without one of them, for each."""
    for resource, actions in rights.items():
        for action in actions:
            left = {**rights, resource: [one for one in actions if one != action]}
            yield {name: some for name, some in left.items() if some}


def test_each_row_has_an_action() -> None:
    assert [[words for words in ACTIONS if row.startswith(words)] for row in table()] == [[words] for words in ACTIONS]


@pytest.mark.parametrize("strict", [False, True], ids=["", STRICT])
@pytest.mark.parametrize("words", ACTIONS)
def test_the_rights_of_a_row_are_enough_and_needed(words: str, strict: bool, tmp_path: Path) -> None:
    rights = next(rights for row, rights in table(strict).items() if row.startswith(words))
    less = dict(enumerate(fewer(rights)))
    assert less
    users = {"full": rights, **{f"less{number}": some for number, some in less.items()}}
    with guarded(users, COUNT, authorization_strict=strict) as broker:
        ACTIONS[words](Run(broker, "full", tmp_path / "full"))
        for number, some in less.items():
            with pytest.raises((NotPermitted, RowRefused, Refused)):
                ACTIONS[words](Run(broker, f"less{number}", tmp_path / str(number)))
                pytest.fail(f"{some} are enough for a user who {words}")


def test_a_refused_pull_and_commit_name_the_right(tmp_path: Path) -> None:
    with guarded({"planner": {"Topic:T": ["Get"]}}, 1) as broker:
        run = Run(broker, "planner", tmp_path)
        reader = RocketMQReader(run.options(), SCHEMA)
        (task,) = reader.partitions()
        needed = "needs the right Sub to the topic and to the group"
        with pytest.raises(NotPermitted, match=f"T@broker-a:0 at offset 0: .*rejects the pull.*{needed} bolide-spark"):
            list(reader.read(task))
        with closing(Cluster(run.options())) as cluster, pytest.raises(NotPermitted, match=needed):
            cluster.queues(["T"])
            cluster.commit({QUEUE: 0})
