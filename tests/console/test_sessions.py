"""Sessions: bounded, and ended in time."""

from __future__ import annotations

from bolide.console.cluster import ClusterView
from bolide.console.sessions import FAILURES, FAILURES_S, IDLE_S, MOST_SESSIONS, WHOLE_S, Notice, Sessions, browser_id
from tests.console.browsing import Clock


def view(clock: Clock) -> ClusterView:
    return ClusterView("127.0.0.1:1", clock)


async def test_a_session_ends_when_nobody_uses_it_and_at_last() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    browser = await sessions.begin("alice", True, view(clock))
    clock.now += IDLE_S
    assert await sessions.find(browser) is not None
    clock.now += IDLE_S + 1
    assert await sessions.find(browser) is None
    browser = await sessions.begin("alice", True, view(clock))
    for _ in range(WHOLE_S // IDLE_S):
        clock.now += IDLE_S
        assert await sessions.find(browser) is not None
    clock.now += 1
    assert await sessions.find(browser) is None


async def test_the_longest_unused_session_makes_room() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    first = await sessions.begin("a", True, view(clock))
    second = await sessions.begin("b", True, view(clock))
    assert await sessions.find(first) is not None
    for _ in range(MOST_SESSIONS - 1):
        await sessions.begin("c", True, view(clock))
    assert await sessions.find(second) is None
    assert await sessions.find(first) is not None
    await sessions.end_all()
    assert await sessions.find(first) is None


def test_a_token_is_that_of_one_browser_and_one_process() -> None:
    sessions, others = Sessions(Clock()), Sessions(Clock())
    one, two = sessions.new_id(), sessions.new_id()
    assert sessions.token_fits(one, sessions.token(one))
    assert not sessions.token_fits(two, sessions.token(one))
    assert not others.token_fits(one, sessions.token(one))
    assert not sessions.token_fits(one, "é")
    assert browser_id(one) == one
    assert [browser_id(text) for text in ("", "x", one + "x", one[:-1] + "é")] == [""] * 4


def test_a_notice_is_shown_once() -> None:
    sessions = Sessions(Clock())
    sessions.tell("x", Notice("done"))
    assert sessions.told("x") == [Notice("done")]
    assert sessions.told("x") == []


def test_tries_side_by_side_are_as_many_as_one_after_the_other() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    assert sum(sessions.begin_try("10.0.0.9") for _ in range(300)) == FAILURES
    assert sessions.begin_try("10.0.0.1"), "others are not kept out"
    clock.now += FAILURES_S
    assert sessions.begin_try("10.0.0.9")


def test_tries_that_were_right_do_not_count() -> None:
    sessions = Sessions(Clock())
    for _ in range(3 * FAILURES):
        assert sessions.begin_try("10.0.0.1")
        sessions.end_try("10.0.0.1")
    sessions.end_try("10.0.0.2")
