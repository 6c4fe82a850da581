"""Scheduler of the suite: starts heavy units early and side by side, and fills the processors with light units.

A heavy unit is a group of tests that share a Java cluster or a Spark session, or one slow test: most of its time is
waiting. A light unit is some quick tests of one file: most of its time is work. `LIGHT_WORKERS` workers take light
units from the start, so that the processors have work while the others wait. When all units of one kind have been
taken, every worker takes the other kind.

pytest-xdist's own `loadgroup` scheduler queues two units per worker, so a long unit may wait behind a second one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

import pytest
from xdist.remote import Producer
from xdist.report import report_collection_diff
from xdist.workermanage import WorkerController, parse_tx_spec_config

ALONE = "alone"
"""The group of heavy tests that share nothing: each test is a separate unit."""
LIGHT_WORKERS = 2
"""The number of processors of the machine that runs CI."""
TESTS_OF_A_LIGHT_UNIT = 10
"""Few enough to balance the end of a run, and enough to set a module's fixtures up for several tests."""


class HeavyBesideLight:
    """pytest-xdist's `Scheduling` protocol. Heavy units keep the order in which their first tests were collected."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        self.numnodes = len(parse_tx_spec_config(config))
        self.collection: list[str] | None = None
        """The ids of all tests. Everything below names a test by its index in it, as the protocol of workers does."""
        self._collections: dict[WorkerController, list[str]] = {}
        self._pending: dict[WorkerController, dict[int, None]] = {}
        """Tests of each worker that have not ended, in their order. The first may be running."""
        self._heavy: deque[list[int]] = deque()
        self._light: deque[list[int]] = deque()
        self._heavy_tests: set[int] = set()

    @property
    def nodes(self) -> list[WorkerController]:
        """The workers."""
        return list(self._pending)

    @property
    def collection_is_completed(self) -> bool:
        """Whether every worker of the start has collected."""
        return len(self._collections) >= self.numnodes

    @property
    def tests_finished(self) -> bool:
        """Whether each worker has at most its last test, which it starts when it receives the shutdown."""
        if not self.collection_is_completed or self._heavy or self._light:
            return False
        return all(len(pending) < 2 for pending in self._pending.values())

    @property
    def has_pending(self) -> bool:
        """Whether a test has not ended."""
        return bool(self._heavy or self._light or any(self._pending.values()))

    def add_node(self, node: WorkerController) -> None:
        """Called when a worker is ready."""
        self._pending[node] = {}

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Called when a worker has collected. Raises `RuntimeError` if it found other tests than another worker."""
        for other, found in self._collections.items():
            if found != list(collection):
                diff = report_collection_diff(found, collection, other.gateway.id, node.gateway.id)
                raise RuntimeError(str(diff))
            break
        self._collections[node] = list(collection)

    def schedule(self) -> None:
        """Called when all workers have collected, and for each that replaces a crashed one."""
        if self.collection is None:
            self.collection = next(iter(self._collections.values()))
            self._form_units(self.collection)
        for node in self.nodes:
            self._feed(node)
        for node in self.nodes:
            self._feed(node)  # a worker whose first unit is a single test starts it only when it knows the next one

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Called when a worker has run a test."""
        del self._pending[node][item_index]
        self._feed(node)

    def mark_test_pending(self, item: str) -> None:
        """Not called for this scheduler."""
        raise NotImplementedError

    def remove_pending_tests_from_node(self, node: WorkerController, indices: Sequence[int]) -> None:
        """Not called for this scheduler: it never reassigns tests of a running worker."""
        raise NotImplementedError

    def remove_node(self, node: WorkerController) -> str | None:
        """Called when a worker ended. Return the test that was running if it crashed; the others have the rest."""
        crashed, *rest = [*self._pending.pop(node), None]
        if crashed is None:
            return None
        assert self.collection is not None
        for heavy, queue in ((True, self._heavy), (False, self._light)):
            unit = [test for test in rest if test is not None and (test in self._heavy_tests) is heavy]
            if unit:
                queue.appendleft(unit)
        for other in self.nodes:
            self._feed(other)
        return self.collection[crashed]

    def _form_units(self, collection: list[str]) -> None:
        groups: dict[str, list[int]] = defaultdict(list)
        files: dict[str, list[int]] = defaultdict(list)
        for test, name in enumerate(collection):
            # A worker appends the group to the id. An "@" before the "]" belongs to a parameter.
            group = name.rpartition("@")[2] if name.rfind("@") > name.rfind("]") else ""
            if group:
                self._heavy_tests.add(test)
                groups[name if group == ALONE else group].append(test)
            else:
                files[name.partition("::")[0]].append(test)
        self._heavy += groups.values()
        for tests in files.values():
            self._light += [
                tests[first : first + TESTS_OF_A_LIGHT_UNIT] for first in range(0, len(tests), TESTS_OF_A_LIGHT_UNIT)
            ]

    def _feed(self, node: WorkerController) -> None:
        """Send a worker its next unit if it is about to need one: it starts a test only when it knows the next."""
        pending = self._pending[node]
        if node.shutting_down or len(pending) > 1:
            return
        unit = self._next(after_heavy=not self._heavy_tests.isdisjoint(pending))
        if unit is None:
            node.shutdown()
            return
        pending.update(dict.fromkeys(unit))
        node.send_runtest_some(unit)

    def _next(self, *, after_heavy: bool) -> list[int] | None:
        """Return the next unit, or None at the end. With `after_heavy` it is queued behind a heavy test."""
        heavy_workers = sum(not self._heavy_tests.isdisjoint(pending) for pending in self._pending.values())
        prefer_heavy = not after_heavy and heavy_workers < max(1, len(self._pending) - LIGHT_WORKERS)
        for queue in (self._heavy, self._light) if prefer_heavy else (self._light, self._heavy):
            if queue:
                return queue.popleft()
        return None
