"""The end of background tasks."""

from __future__ import annotations

import asyncio

from bolide.world.tasks import end_tasks


async def test_tasks_have_ended_and_their_errors_are_dropped() -> None:
    seen: list[str] = []

    async def tidies() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            seen.append("tidied")

    async def fails() -> None:
        raise ValueError

    tasks = {asyncio.create_task(tidies()), asyncio.create_task(fails())}
    await asyncio.sleep(0)
    await end_tasks(tasks)
    assert seen == ["tidied"]
    assert all(task.done() for task in tasks)


async def test_no_tasks_end_at_once() -> None:
    await end_tasks([])
