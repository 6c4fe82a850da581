"""The verdict of an attack: the ledger's, about what the stores hold when everything has stopped."""

from __future__ import annotations

import builtins
import itertools
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from proof.attack import operations, store_reader
from proof.attack.bookkeeping import CRASHED, Bookkeeping
from proof.attack.clients import Client
from proof.attack.servers import Server, conf_of
from proof.kit.journal import Entry
from proof.ledger import Finding, Kind, Outcome, Promises, View, judge, passed_over

MOST_SHOWN: Final = 20
TRACEBACK: Final = "Traceback (most recent call last):\n"


@dataclass
class Verdict:
    """What was found, and the figures of the run."""

    findings: list[Finding] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    passed_over: set[tuple[str, int]] = field(default_factory=set)
    """What a group need not get any more, by its name and the journals' number of the message."""

    @property
    def held(self) -> bool:
        """Whether every promise was kept."""
        return not self.findings

    def wrong(self, promise: str, detail: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(promise, detail))

    def lines(self) -> list[str]:
        """The findings for a person: a few of each promise, and how many there are."""
        shown: list[str] = []
        by_promise = Counter(finding.promise for finding in self.findings)
        for promise, count in by_promise.items():
            details = [finding.detail for finding in self.findings if finding.promise == promise]
            shown.append(f"not kept: {promise} ({count})")
            shown += [f"    {detail}" for detail in details[:MOST_SHOWN]]
        return shown


@dataclass(frozen=True)
class Sets:
    """Brokers that have replicas: who is the master of each name, and the name of each machine."""

    masters: dict[str, Server]
    members: dict[str, str]


def of_run(
    servers: list[Server],
    clients: list[Client],
    entries: list[Entry],
    promises: Promises,
    at: float,
    sets: Sets | None = None,
) -> Verdict:
    """Judge a run whose processes have all ended. Of sets the masters' stores are read."""
    verdict = Verdict()
    book = Bookkeeping()
    members = sets.members if sets is not None else {}
    crashes: list[Entry] = [
        [end.at, CRASHED, members.get(server.name, server.name)]
        for server in servers
        for end in server.ends
        if end.status != 0
    ]
    book.tell([*entries, *crashes])
    for text in book.failures:
        verdict.wrong("no client fails", text)
    for client in clients:
        for text in client.problems:
            verdict.wrong("no client fails", text)
    brokers = [server for server in servers if server.kind == "broker"]
    stores = sets.masters if sets is not None else {server.name: server for server in brokers}
    view = read_view(stores, servers, verdict)
    view.at = at
    book.number_in_ledger(view)
    verdict.findings += judge(book.ledger, view, promises)
    verdict.passed_over = book.in_journals(passed_over(book.ledger, view, promises))
    for server in servers:
        _ends_of(server, verdict)
        _log_of(server, verdict)
    for broker in brokers:
        _verified(broker, verdict)
    verdict.figures = figures(book, view, servers)
    return verdict


def read_view(stores: dict[str, Server], servers: list[Server], verdict: Verdict) -> View:
    """Read the stores and tables by their files."""
    view = View()
    for name, broker in stores.items():
        store = store_reader.read_store(broker.folder, name, set(operations.TOPICS))
        view.queues.update(store.queues)
        for text in store.wrong:
            verdict.wrong("queues and log agree", text)
        view.offsets.update(store_reader.read_offsets(broker.folder, name))
    for server in servers:
        view.tables.update(tables_of(server))
    return view


def tables_of(server: Server) -> dict[tuple[str, ...], object]:
    """The tables of a server that is down."""
    found: dict[str, Any] = {"topics": {}, "groups": {}, "keys": {}, "settings": {}}
    if server.kind == "namesrv":
        found["keys"][server.name] = store_reader.read_keys(server.folder / "kvConfig.json")
    elif server.kind == "broker":
        found["topics"][server.name] = store_reader.read_topics(server.folder)
        found["groups"][server.name] = store_reader.read_groups(server.folder)
        found["settings"][server.name] = _setting(server.folder / "config" / "broker.conf")
    return operations.tables(found)


def _setting(path: Path) -> str | None:
    if not path.exists():
        return None
    lines = dict(line.split("=", 1) for line in path.read_text("utf-8").splitlines() if "=" in line)
    return next((value.strip() for key, value in lines.items() if key.strip() == operations.SETTING), None)


def _ends_of(server: Server, verdict: Verdict) -> None:
    for end in server.ends:
        problem = end.problem()
        if problem:
            verdict.wrong("servers end when told to", f"{server.name} {problem}")


def _log_of(server: Server, verdict: Verdict) -> None:
    """No traceback but of what the system, or the store about the system, says."""
    text = server.log.read_text("utf-8", "replace") if server.log.exists() else ""
    for before, after in itertools.pairwise(text.split(TRACEBACK)):
        raised = next((line for line in after.splitlines() if line and not line.startswith(" ")), "?")
        if not _of_the_system(raised.partition(":")[0]):
            said = before.strip().splitlines()[-1:] or [""]
            verdict.wrong("no unexpected error", f"{server.name}: {raised[:200]}, after {said[0][:200]}")


def _of_the_system(name: str) -> bool:
    """Whether an error of this class is what a fault makes: the system's, or the store's about it."""
    kind = getattr(builtins, name, None)
    return name.startswith("bolide.store.") or (isinstance(kind, type) and issubclass(kind, OSError))


def _verified(broker: Server, verdict: Verdict) -> None:
    """`bolide store verify` agrees with the reader of this program."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "bolide",
            "store",
            "verify",
            str(broker.folder),
            "--config",
            str(conf_of(broker.folder)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        verdict.wrong("the store verifies", f"{broker.name}: {(done.stdout + done.stderr).strip()[-1500:]}")


def figures(book: Bookkeeping, view: View, servers: list[Server]) -> dict[str, Any]:
    """Counts of the run."""
    ledger = book.ledger
    return {
        "messages": len(ledger.sends),
        "acknowledged": book.counted(Outcome.DONE),
        "refused": book.counted(Outcome.REFUSED),
        "unknown": book.counted(Outcome.UNKNOWN) + book.counted(Outcome.OPEN),
        "of_kind": {kind.value: len(book.sent(kind)) for kind in Kind},
        "consumed": len(ledger.seen),
        "changes": sum(map(len, ledger.changes.values())),
        "in_queues": sum(len(found.messages) for found in view.queues.values()),
        "starts": {server.name: server.starts for server in servers},
        "struck_calls": sum(server.struck for server in servers),
    }
