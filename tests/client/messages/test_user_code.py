"""Errors of code that the user provides: which of them interrupt the caller, and what becomes of the others."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest

from bolide.client.messages.user_code import call_user_code, raise_interruption, result_of
from proof.kit.waiting import PATIENCE
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


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit])
def test_user_code_raises_runtime_error_instead_of_errors_that_futures_reject(kind: type[BaseException]) -> None:
    def raises(kind: type[BaseException]) -> None:
        raise kind

    with pytest.raises(RuntimeError, match=f"raised {kind.__name__}") as caught:
        call_user_code(raises, kind)
    assert isinstance(caught.value.__cause__, kind)
    with pytest.raises(KeyError):
        call_user_code(raises, KeyError)
    assert call_user_code(int, "7") == 7


async def test_the_outcome_of_a_future_of_the_user_is_returned() -> None:
    future: Future[int] = Future()
    waiting = asyncio.ensure_future(result_of(future))
    await asyncio.sleep(0)
    threading.Thread(target=future.set_result, args=(7,)).start()
    assert await waiting == 7


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit])
async def test_a_future_of_the_user_may_contain_errors_that_futures_of_a_loop_reject(kind: type[BaseException]) -> None:
    future: Future[int] = Future()
    future.set_exception(kind())
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(RuntimeError, match=kind.__name__):
            await result_of(future)


async def test_cancellation_cancels_the_future_of_the_user() -> None:
    future: Future[int] = Future()
    waiting = asyncio.ensure_future(result_of(future))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert future.cancelled()
