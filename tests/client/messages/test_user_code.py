"""Errors of code that the user provides: which of them interrupt the caller, and what becomes of the others."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bolide.client.messages.user_code import raise_interruption
from tests.client.messages.escapes import ESCAPES


@pytest.mark.parametrize("kind", ESCAPES)
async def test_errors_of_user_code_are_not_interruptions(kind: type[BaseException]) -> None:
    raise_interruption(kind())


async def test_the_cancellation_of_the_calling_task_is_one() -> None:
    seen: list[BaseException] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            seen.append(error)
            raise_interruption(error)

    task = asyncio.get_running_loop().create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen


def test_ctrl_c_is_one_in_the_main_thread_only() -> None:
    with pytest.raises(KeyboardInterrupt):
        raise_interruption(KeyboardInterrupt())
    thread = threading.Thread(target=raise_interruption, args=(KeyboardInterrupt(),))
    thread.start()
    thread.join()


def test_a_cancellation_in_a_thread_without_a_loop_is_none() -> None:
    raise_interruption(asyncio.CancelledError())
