"""Background tasks: one that fails starts again, and one that is cancelled ends."""

from __future__ import annotations

import asyncio

import pytest

from bolide.client.instance.background_tasks import BackgroundTasks
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

    task = tasks.keep(work, "work")
    await until(lambda: len(starts) == 2, "the second start")
    await tasks.cancel()
    assert task.cancelled()
    assert f"work failed with {kind.__name__}" in caplog.text


async def test_a_task_that_returns_has_ended() -> None:
    tasks = BackgroundTasks(asyncio.get_running_loop())

    async def work() -> None:
        return

    await tasks.keep(work, "work")
