"""The scheduler of a run, against workers that follow pytest-xdist's protocol."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runner.schedule import ALONE, LIGHT_WORKERS, HeavyBesideLight


class Worker:
    """Runs a test if it knows the next one or has received the shutdown."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.queue: list[int] = []
        self.ran: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        self.queue += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def ready(self) -> bool:
        return len(self.queue) > 1 or (self.shutting_down and bool(self.queue))

    def run(self, scheduler: HeavyBesideLight) -> None:
        test = self.queue.pop(0)
        self.ran.append(test)
        node: Any = self
        scheduler.mark_test_complete(node, test)


def make(tests: list[str], workers: int) -> tuple[HeavyBesideLight, list[Any]]:
    config: Any = SimpleNamespace(getvalue=lambda name: ["popen"] * workers)
    scheduler = HeavyBesideLight(config)
    nodes: list[Any] = [Worker(f"gw{number}") for number in range(workers)]
    for node in nodes:
        scheduler.add_node(node)
    for node in nodes:
        scheduler.add_node_collection(node, tests)
    scheduler.schedule()
    return scheduler, nodes


def finish(scheduler: HeavyBesideLight, nodes: list[Any], choose: Any = min) -> None:
    while scheduler.has_pending:
        ready = [number for number, node in enumerate(nodes) if node.ready]
        if not ready:
            assert scheduler.tests_finished
            for node in nodes:
                node.shutdown()
            continue
        nodes[choose(ready)].run(scheduler)


COLLECTIONS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "", "", "java", "spark", ALONE])), max_size=60
).map(lambda rows: [f"{file}.py::test_{n}" + (f"@{group}" if group else "") for n, (file, group) in enumerate(rows)])


@given(tests=COLLECTIONS, workers=st.integers(1, 6), data=st.data())
def test_every_test_runs_once_and_a_group_in_one_worker(tests: list[str], workers: int, data: st.DataObject) -> None:
    scheduler, nodes = make(tests, workers)
    finish(scheduler, nodes, lambda ready: data.draw(st.sampled_from(ready)))
    assert sorted(test for node in nodes for test in node.ran) == list(range(len(tests)))
    for group in ("java", "spark"):
        of_group = {number for number, name in enumerate(tests) if name.endswith(f"@{group}")}
        assert sum(not of_group.isdisjoint(node.ran) for node in nodes) <= 1


@given(tests=COLLECTIONS.filter(bool), workers=st.integers(2, 4), data=st.data())
def test_a_crashed_worker_loses_only_the_test_it_ran(tests: list[str], workers: int, data: st.DataObject) -> None:
    scheduler, nodes = make(tests, workers)
    victim = next(node for node in nodes if node.queue)
    lost = victim.queue[0]
    nodes.remove(victim)
    assert scheduler.remove_node(victim) == tests[lost]
    fresh: Any = Worker("gw9")
    nodes.append(fresh)
    scheduler.add_node(fresh)
    scheduler.add_node_collection(fresh, tests)
    scheduler.schedule()
    finish(scheduler, nodes, lambda ready: data.draw(st.sampled_from(ready)))
    assert sorted(test for node in nodes for test in node.ran) == [n for n in range(len(tests)) if n != lost]


def test_light_workers_stay_free_of_heavy_units_while_there_are_light_ones() -> None:
    tests = [f"heavy.py::test_{number}@{ALONE}" for number in range(20)]
    tests += [f"light{number}.py::test" for number in range(20)]
    _, nodes = make(tests, 6)
    heavy_first = [node for node in nodes if node.queue[0] < 20]
    assert len(heavy_first) == 6 - LIGHT_WORKERS
    assert all(node.queue[1] >= 20 for node in heavy_first), "a heavy test waits behind another"


def test_light_tests_of_a_file_stay_together() -> None:
    tests = [f"{file}.py::test_{number}" for file in "ab" for number in range(10)]
    scheduler, nodes = make(tests, 2)
    finish(scheduler, nodes, max)
    assert {test // 10 for test in nodes[0].ran[:10]} == {0}
    assert {test // 10 for test in nodes[1].ran[:10]} == {1}


def test_an_at_sign_in_a_parameter_names_no_group() -> None:
    scheduler, nodes = make(["a.py::test_1[x@java]", "a.py::test_2[y@spark]"], 2)
    assert [len(node.queue) for node in nodes] == [2, 0]
    finish(scheduler, nodes)


def test_workers_that_collect_different_tests_end_the_run() -> None:
    scheduler, _ = make(["a.py::test_1"], 1)
    other: Any = Worker("gw1")
    with pytest.raises(RuntimeError, match="test_2"):
        scheduler.add_node_collection(other, ["a.py::test_2"])
