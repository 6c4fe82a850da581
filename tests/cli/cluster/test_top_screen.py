"""The picture of `bolide top`: it fills the terminal exactly, whatever the names and figures are."""

from __future__ import annotations

import time

import pytest
from rich.cells import cell_len

from bolide.admin.cluster import BrokerRow
from bolide.cli.cluster.top_figures import GroupLine, Round
from bolide.cli.cluster.top_screen import View, caught_up, picture

RUNTIME = {"putTps": "120.5 1 1", "getTransferredTps": "80.0 1 1", "brokerRole": "SYNC_MASTER"}


def a_round(groups: list[GroupLine], brokers: int = 1) -> Round:
    rows = [BrokerRow("Main", f"broker-{number:02}", 0, "10.0.0.1:10911", RUNTIME) for number in range(brokers)]
    return Round(1_700_000_000.0, rows, groups)


def shown(latest: Round | None, view: View, trouble: str = "", width: int = 80, height: int = 24) -> list[str]:
    lines = picture(latest, view, trouble, width=width, height=height)
    assert [cell_len(line.plain) for line in lines] == [width] * height
    return [line.plain for line in lines]


def named(lines: list[str], start: str) -> list[str]:
    return [line.split()[0] for line in lines if line.startswith(start)]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (66, 10)])
def test_screen_is_filled_with_the_slowest_groups(width: int, height: int) -> None:
    groups = [GroupLine(f"group-{number:03}-" + "消" * (number % 60), number, None) for number in range(500)]
    lines = shown(a_round(groups, brokers=30), View(), width=width, height=height)
    assert named(lines, "group-4")[0].startswith("group-499") and "q quit" in lines[-1]
    assert any("more brokers" in line for line in lines)


def test_the_head_adds_the_brokers_up() -> None:
    (head, *_) = shown(a_round([GroupLine("late", 7, None)], brokers=2), View())
    assert head.startswith("Main ") and "put 241/s  get 160/s  lag 7" in head


def test_a_broker_that_does_not_serve_comes_first() -> None:
    fine = a_round([], brokers=30)
    gone = BrokerRow("Main", "zz-gone", 0, "10.0.0.9:10911", {}, "no answer")
    lines = shown(Round(fine.when, [*fine.brokers, gone], []), View())
    assert lines[2].startswith("zz-gone") and "no answer" in lines[2]


def test_names_of_others_cannot_move_the_cursor() -> None:
    lines = shown(a_round([GroupLine("bad\x1b[2Jname", 1, None)]), View(part="\x1b"))
    assert not any("\x1b" in line for line in lines)
    lines = shown(a_round([GroupLine("bad\x1b[2Jname", 1, None)]), View())
    assert any("bad\\x1b[2Jname" in line for line in lines)


def test_keys_choose_the_order_the_filter_and_a_pause() -> None:
    groups = [GroupLine("b", 9, -1.0), GroupLine("a", 5, 2.0), GroupLine("Cx", 1, 0.0)]
    view = View()
    orders = []
    for _ in range(3):
        orders.append([line.group for line in a_round(groups).slowest(view.order, None)])
        view.press("s")
    assert orders == [["b", "a", "Cx"], ["a", "Cx", "b"], ["Cx", "a", "b"]] and view.order == "lag"
    for key in "/cqs\x7f\x7f":
        view.press(key)
    assert view.typing and view.part == "c" and not view.ended
    assert "filter: c_" in shown(a_round(groups), view)[-1]
    view.press("\n")
    assert [line.group for line in a_round(groups).slowest("lag", 5, view.part)] == ["Cx"]
    assert "filter: c" in shown(a_round(groups), view)[-1]
    view.press("\x1b")
    view.press("p")
    assert (view.part, view.paused) == ("", True) and "PAUSED" in shown(a_round(groups), view)[0]
    view.press("q")
    assert view.ended


def test_a_failed_round_leaves_the_figures_and_says_why() -> None:
    assert "no name server" in shown(None, View(), "no name server")[0]
    lines = shown(a_round([GroupLine("late", 7, None)]), View(), "no name server")
    assert "no name server" in lines[1] and named(lines, "late")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (GroupLine("g", 0, 5.0), "now"),
        (GroupLine("g", 10, None), ""),
        (GroupLine("g", 10, 0.0), "never"),
        (GroupLine("g", 10, -1.0), "10 s"),
        (GroupLine("g", 130, -1.0), "2 min"),
        (GroupLine("g", 7_300, -1.0), "2 h 01 min"),
    ],
)
def test_when_a_group_has_caught_up(line: GroupLine, said: str) -> None:
    assert caught_up(line) == said


def test_thousands_of_groups_are_drawn_quickly() -> None:
    latest = a_round([GroupLine(f"group-{number}", number % 997, 1.0) for number in range(10_000)])
    started = time.process_time()
    for _ in range(5):
        shown(latest, View(part="group"))
    assert time.process_time() - started < 2.5
