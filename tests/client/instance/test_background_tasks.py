"""Background tasks: one that fails or that other code cancels starts again, and one that its owner ends has ended."""

from __future__ import annotations

import asyncio
import logging

import pytest

from bolide.client.instance.background_tasks import BackgroundTasks, end_kept
from proof.kit.waiting import until
from tests.client.messages.escapes import ESCAPES


@pytest.mark.parametrize("kind", [RuntimeError, *ESCAPES])
async def test_a_task_that_fails_starts_again_and_says_so(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    tasks = BackgroundTasks(asyncio.get_running_loop())
    starts: list[int] = []

    async def work() -> None:
        starts.append(1)
        if len(starts) == 1:
            raise kind
        await asyncio.Event().wait()

    kept = tasks.keep(work, "work")
    await until(lambda: len(starts) == 2, "the second start")
    await tasks.cancel()
    assert kept.ended
    seen = "RuntimeError" if kind is StopIteration else kind.__name__  # PEP 479
    assert f"work failed with {seen}" in caplog.text


async def test_a_task_that_returns_has_ended() -> None:
    tasks = BackgroundTasks(asyncio.get_running_loop())

    async def work() -> None:
        return

    kept = tasks.keep(work, "work")
    await kept.wait()
    assert kept.ended


class Work:
    """Work without an end, which counts its starts."""

    def __init__(self) -> None:
        self.starts = 0

    async def run(self) -> None:
        self.starts += 1
        await asyncio.Event().wait()


def cancel_all() -> None:
    """Cancel every task but the current one, as a careless program does."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def test_task_that_other_code_cancels_starts_again_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    tasks, work = BackgroundTasks(asyncio.get_running_loop()), Work()
    kept = tasks.keep(work.run, "work")
    await until(lambda: work.starts == 1, "the start")
    cancel_all()
    await until(lambda: work.starts == 2, "the second start")
    cancel_all()
    await until(lambda: work.starts == 3, "the third start")
    assert caplog.text.count("work was cancelled by code outside the client, and restarts") == 2
    await tasks.cancel()
    assert kept.ended


async def test_task_that_its_owner_ends_does_not_start_again() -> None:
    tasks, work = BackgroundTasks(asyncio.get_running_loop()), Work()
    ended: list[int] = []
    kept = tasks.keep(work.run, "work", lambda: ended.append(1))
    await until(lambda: work.starts == 1, "the start")
    await end_kept([kept])
    assert ended == [1] and kept.ended


async def test_owner_ends_a_task_that_waits_for_its_restart() -> None:
    tasks, work = BackgroundTasks(asyncio.get_running_loop()), Work()
    ended: list[int] = []
    kept = tasks.keep(work.run, "work", lambda: ended.append(1))
    await until(lambda: work.starts == 1, "the start")
    cancel_all()
    await kept.wait()
    assert not kept.ended and ended == []
    await end_kept([kept])
    assert ended == [1] and kept.ended
    other = Work()
    tasks.keep(other.run, "other")
    await until(lambda: other.starts == 1, "the start of another task")
    cancel_all()
    await until(lambda: other.starts == 2, "its restart, which is due later")
    assert work.starts == 1
    await tasks.cancel()


def test_program_that_leaves_a_client_open_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    work = Work()

    async def main() -> None:
        BackgroundTasks(asyncio.get_running_loop()).keep(work.run, "work")
        await until(lambda: work.starts == 1, "the start")

    asyncio.run(main())
    assert work.starts == 1 and "restarts" not in caplog.text
