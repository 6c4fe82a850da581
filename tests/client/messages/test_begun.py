"""Calls of async listeners that run at once: they end as when they are awaited from the start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bolide.client import DEAD_LETTER, ConsumeResult, ReceivedMessage, RetryLater
from bolide.client.messages.begun import begun
from bolide.client.messages.listener import Failed, ListenerCall
from bolide.world.real import THE_WORLD
from proof.kit.waiting import PATIENCE
from tests.client.messages.escapes import ESCAPES
from tests.client.messages.received import a_message

Outcomes = Callable[[ReceivedMessage], Awaitable[object]]


class Held:
    """A queue that is dropped after `calls` looks."""

    def __init__(self, calls: int = 100) -> None:
        self._left = calls

    @property
    def dropped(self) -> bool:
        self._left -= 1
        return self._left < 0


def begun_one(listener: Callable[[ReceivedMessage], object], message: ReceivedMessage) -> Awaitable[Failed] | None:
    through, run = begun(listener, [message], Held())
    assert through == (run is None)
    return run


async def a_turn() -> None:
    loop = asyncio.get_running_loop()
    woken = loop.create_future()
    loop.call_soon(woken.set_result, None)
    await woken


def listener(outcome: object, pauses: int) -> Outcomes:
    """One that waits so many times, in different ways, and then returns or raises."""

    async def call(message: ReceivedMessage) -> object:
        for number in range(pauses):
            if number % 2:
                await asyncio.sleep(0)
            else:
                async with asyncio.timeout(PATIENCE):
                    await a_turn()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return call


@pytest.mark.parametrize("pauses", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "outcome",
    [
        None,
        True,
        False,
        ConsumeResult.SUCCESS,
        ConsumeResult.RETRY,
        0,
        1,
        "odd",
        ValueError("x"),
        RetryLater(DEAD_LETTER),
        *(kind() for kind in ESCAPES),
    ],
)
async def test_begun_call_ends_like_an_awaited_call(outcome: object, pauses: int) -> None:
    message = a_message()
    run = begun_one(listener(outcome, pauses), message)
    found: Failed = [] if run is None else await run
    with THE_WORLD.pool(1, "none") as threads:
        assert found == await ListenerCall(listener(outcome, pauses)).run([message], threads)  # type: ignore[arg-type]  # odd outcomes too
    if pauses:
        assert run is not None


def test_successful_call_without_waits_is_not_awaited() -> None:
    assert begun_one(listener(None, 0), a_message()) is None


async def test_a_cancellation_reaches_the_listener_that_waits() -> None:
    seen: list[str] = []

    async def call(message: ReceivedMessage) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def work() -> None:
        run = begun_one(call, a_message())
        assert run is not None
        await run

    task = asyncio.get_running_loop().create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_a_listener_that_takes_its_cancellation_still_has_an_outcome() -> None:
    async def call(message: ReceivedMessage) -> bool:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return False

    run = begun_one(call, a_message())
    assert run is not None
    task = asyncio.ensure_future(run)
    await asyncio.sleep(0)
    task.cancel()
    assert len(await task) == 1


async def test_a_listener_that_fails_before_it_has_a_coroutine_has_failed() -> None:
    def call(message: ReceivedMessage) -> Awaitable[None]:
        raise StopIteration

    run = begun_one(call, a_message())
    assert run is not None
    assert len(await run) == 1


async def test_messages_before_the_first_that_waits_are_finished() -> None:
    seen: list[ReceivedMessage] = []

    async def call(message: ReceivedMessage) -> bool | None:
        seen.append(message)
        if len(seen) == 3:
            await a_turn()
            return False
        return True if len(seen) == 2 else None

    messages = [a_message() for _ in range(5)]
    through, run = begun(call, messages, Held())
    assert through == 2
    assert run is not None
    assert [message for message, _ in await run] == [messages[2]]
    assert seen == messages[:3]


def test_messages_of_a_dropped_queue_are_not_delivered() -> None:
    seen: list[ReceivedMessage] = []

    async def call(message: ReceivedMessage) -> None:
        seen.append(message)

    messages = [a_message() for _ in range(5)]
    assert begun(call, messages, Held(calls=2)) == (2, None)
    assert seen == messages[:2]


async def test_ctrl_c_in_a_listener_is_raised_by_its_awaitable() -> None:
    async def call(message: ReceivedMessage) -> None:
        raise KeyboardInterrupt

    through, run = begun(call, [a_message()], Held())
    assert through == 0
    assert run is not None
    with pytest.raises(KeyboardInterrupt):
        await run
