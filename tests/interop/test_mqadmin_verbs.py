"""Every verb of mqadmin 4.9.7 and 5.5.0, at Java's name server, broker and controller, and at ours, side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from proof.interop.java_processes import (
    JavaBroker,
    JavaClient,
    JavaController,
    JavaNameServer,
    MqAdmin,
    endless_mqadmin,
    wait_registered,
)
from proof.interop.matrix import PROGRAM
from proof.kit.our_processes import OurBroker, OurController, OurNameServer
from proof.kit.waiting import wait_until
from tests.interop.mqadmin_verbs import CONSUME, ENDLESS, NAMES, NEW, OLD, SEND, STEPS, STOP, WORKS, Step, told

pytestmark = [
    pytest.mark.java,
    pytest.mark.matrix(feature="mqadmin, every verb compared with Java", direction=PROGRAM),
]
JAVA, OURS = "java", "ours"
CLIENTS = {OLD: "4.9.8", NEW: NEW}
SHORT_POLLS = {"longPollingEnable": "false"}
"""Java's broker notes a group's offset of its retry topic when it answers a pull, after 20 s of long polling."""


@dataclass
class Side:
    """Servers of one kind, with mqadmin and a client of RocketMQ's."""

    folder: Path
    admin: MqAdmin
    client: JavaClient
    names: dict[str, str]
    printed: dict[int, str] = field(default_factory=dict)
    """By the number of a step."""

    def run(self, version: str) -> None:
        """All steps of a version."""
        for number, step in enumerate(STEPS):
            if step in (SEND, CONSUME, STOP):
                self._clients(step)
            elif version in step.versions:
                self.printed[number] = self.admin.told(step.words.format_map(self.names))

    def _clients(self, step: Step) -> None:
        if step is SEND:
            sent = self.client.call("send", topic="Alpha", mode="sync", count=3)
            traced = self.client.call("send", topic="Traced", mode="traced", count=1)
            self.names |= {
                "unique": sent[0]["msgId"],
                "offset": sent[0]["offsetMsgId"],
                "traced": traced[0]["msgId"],
            }
            trace = f"queryMsgTraceById -i {traced[0]['msgId']}"
            wait_until(lambda: "success" in self.admin.told(trace), "the trace is found")
        elif step is CONSUME:
            self.client.call("consume", group="ga", topic="Alpha")
            self.client.call("await", group="ga", count=3)
            wait_until(self._consumed, "the offsets are committed, and the members known")
        else:
            self.client.call("stop", group="ga")
            gone = "consumerConnection -g ga"
            wait_until(lambda: "not online" in self.admin.told(gone), "the consumer has left", 60)  # not by expiry

    def _consumed(self) -> bool:
        connected = re.search(r"^(\S+@ga) ", self.admin.told("consumerConnection -g ga"), re.MULTILINE)
        if connected:
            self.names["client"] = connected[1]
        progress = self.admin.told("consumerProgress -g ga")
        known = "interop_producer" in self.admin.told("producerConnection -g interop_producer -t Alpha")
        through = "%RETRY%ga" in progress and re.search(r"Diff Total: +0\b", progress)
        # Java's broker counts every ten seconds
        counted = re.search(r"^Alpha +ga .* 3 +3$", self.admin.told("statsAll -t Alpha"), re.MULTILINE)
        return bool(connected and through and known and counted)


@dataclass
class Pair:
    """Both sides after all steps."""

    version: str
    sides: dict[str, Side]


def started(kind: str, version: str, home: Path, ends: ExitStack) -> Side:
    """The servers of one side; a controller where the release has one."""
    controller = ""
    name_server: JavaNameServer | OurNameServer
    broker: JavaBroker | OurBroker
    if kind == JAVA:
        name_server = JavaNameServer(home / "namesrv", version)
        ends.callback(name_server.kill)
        broker = JavaBroker(home / "broker", name_server.address, SHORT_POLLS, version=version)
    else:
        name_server = OurNameServer(home / "namesrv")
        ends.callback(name_server.kill)
        broker = OurBroker(home / "broker", name_server.address)
    ends.callback(broker.kill)
    if version == NEW:
        kept = (JavaController if kind == JAVA else OurController)(home / "controller")
        ends.callback(kept.kill)
        controller = kept.address
    wait_registered(name_server.address)
    folder = home / "files"
    folder.mkdir()
    (folder / "topics.json").write_text('[{"topicName":"Gamma","readQueueNums":1,"writeQueueNums":1,"perm":6}]')
    (folder / "groups.json").write_text('[{"groupName":"gc"}]')
    admin = MqAdmin(home / "admin", name_server.address, version)
    ends.callback(admin.close)
    client = JavaClient(home / "client", name_server.address, CLIENTS[version])
    ends.callback(client.close)
    names = {"broker": broker.address, "namesrv": name_server.address, "controller": controller}
    return Side(home, admin, client, names | {"folder": str(folder)})


class Pairs:
    """The pair of each version, once its steps are through. What failed once is not tried again."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._ends = ExitStack()
        self._found: dict[str, Pair | BaseException] = {}

    def of(self, version: str) -> Pair:
        """Start it and run its steps, unless it stands."""
        if version not in self._found:
            try:
                self._found[version] = self._started(version)
            except BaseException as error:
                self._found[version] = error
        found = self._found[version]
        if isinstance(found, Pair):
            return found
        raise found

    def end(self) -> None:
        """End all that stands."""
        self._ends.close()

    def _started(self, version: str) -> Pair:
        sides = {kind: started(kind, version, self._folders.mktemp(kind), self._ends) for kind in (JAVA, OURS)}
        with ThreadPoolExecutor(2) as at_once:
            for done in [at_once.submit(side.run, version) for side in sides.values()]:
                done.result()
        return Pair(version, sides)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pairs]:
    made = Pairs(tmp_path_factory)
    yield made
    made.end()


def of_version(version: str, *values: object, name: str) -> Any:
    """A parameter set, in the group that shares the pair of this version."""
    return pytest.param(version, *values, id=name, marks=pytest.mark.xdist_group(f"mqadmin-{version}"))


def chosen() -> Iterator[object]:
    for version in (OLD, NEW):
        for number, step in enumerate(STEPS):
            if version in step.versions and step not in (SEND, CONSUME, STOP):
                yield of_version(version, number, name=f"{version}-{step.words}")


@pytest.mark.parametrize(("version", "number"), list(chosen()))
def test_a_verb(pairs: Pairs, version: str, number: int) -> None:
    pair, step = pairs.of(version), STEPS[number]
    java, ours = (pair.sides[kind].printed[number] for kind in (JAVA, OURS))
    if step.compared == WORKS:
        assert "Exception" not in java + ours, f"Java: {java}\nours: {ours}"
        return
    found = {
        kind: told(side.printed[number], str(side.folder), step.compared, version) for kind, side in pair.sides.items()
    }
    if step.ours:
        assert re.search(step.ours, ours), ours
        assert found[JAVA] != found[OURS], f"it is the same by now, and needs no reason: {step.because}"
    elif step.compared == NAMES:
        assert set(found[OURS]) >= set(found[JAVA])
    else:
        assert found[OURS] == found[JAVA]


@pytest.mark.parametrize("version", [of_version(version, name=version) for version in (NEW, OLD)])
def test_the_steps_have_every_verb(pairs: Pairs, version: str) -> None:
    listed = set(re.findall(r"^ {3}(\w+) +\S", pairs.of(version).sides[OURS].admin.told(""), re.MULTILINE))
    assert len(listed) > 50
    tried = {step.verb for step in STEPS if version in step.versions}
    assert listed - tried == set(ENDLESS)


@pytest.mark.parametrize("kind", [JAVA, OURS])
@pytest.mark.parametrize("version", [of_version(version, name=version) for version in (OLD, NEW)])
def test_round_trips_are_measured_until_it_is_ended(pairs: Pairs, version: str, kind: str, tmp_path: Path) -> None:
    namesrv = pairs.of(version).sides[kind].names["namesrv"]
    measures = endless_mqadmin(tmp_path, version, "clusterRT", "-n", namesrv, "-a", "2", "-i", "1", "-s", "16")
    row = re.compile(r"^DefaultCluster +broker-a +[\d.]+ +[1-9]\d* +0", re.MULTILINE)
    try:
        wait_until(lambda: row.search(measures.output()) is not None, "a row without a failed send")
    finally:
        measures.kill()
