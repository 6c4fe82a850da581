"""The stacks that a member reports: of threads and of tasks, with the place where each waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator
from typing import Any

from bolide.client.consuming.stacks import MAX_STACKS, stacks
from proof.kit.waiting import PATIENCE


async def waits_within(event: asyncio.Event) -> None:
    await waits(event)


async def waits(event: asyncio.Event) -> None:
    await event.wait()


async def test_threads_and_tasks_are_shown_where_they_wait() -> None:
    go_on, event = threading.Event(), asyncio.Event()

    def holds() -> None:
        go_on.wait(PATIENCE)

    thread = threading.Thread(target=holds, name="held thread")
    thread.start()
    task = asyncio.create_task(waits_within(event), name="held task")
    await asyncio.sleep(0)
    try:
        text = stacks()
    finally:
        go_on.set()
        event.set()
        thread.join(PATIENCE)
        await task
    of_thread = text.partition('"held thread" TID: ')[2].partition("\n\n")[0]
    assert "in holds\n    go_on.wait(PATIENCE)" in of_thread
    of_task = text.partition('task "held task"\n')[2].partition("\n\n")[0]
    assert [line.rpartition(" ")[2] for line in of_task.splitlines()] == ["waits_within", "waits", "wait"]


class WithoutFrames(Coroutine[Any, Any, None]):
    """A coroutine without frames, like the coroutines of compiled modules."""

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._coroutine = coroutine

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._coroutine.__await__()


async def test_a_task_without_frames_is_not_called_done() -> None:
    event = asyncio.Event()
    task = asyncio.create_task(WithoutFrames(waits(event)), name="compiled task")
    await asyncio.sleep(0)
    text = stacks()
    event.set()
    await task
    assert 'task "compiled task"\n  (in compiled code)\n' in text


async def test_many_tasks_are_counted_and_not_all_shown() -> None:
    event = asyncio.Event()
    tasks = [asyncio.create_task(waits(event), name=f"many {number}") for number in range(MAX_STACKS + 5)]
    await asyncio.sleep(0)
    text = stacks()
    event.set()
    await asyncio.gather(*tasks)
    assert text.count('task "') == MAX_STACKS
    assert "6 more tasks" in text  # and the test's own
