"""Delays that a listener may ask for, and what becomes of a listener of any shape and its return value."""

from __future__ import annotations

import asyncio
import enum
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import pytest

from bolide.client import DEAD_LETTER, ArgumentError, ConsumeResult, PushConsumer, ReceivedMessage, RetryLater
from bolide.client.consuming.message_filter import check_filters, wanted_messages
from bolide.client.messages.listener import Failed, ListenerCall, takes_list
from bolide.client.tracing.interceptor import ConsumeCall, Interceptor, around
from bolide.world.real import THE_WORLD
from tests.client.messages.received import a_message


@pytest.mark.parametrize("level", [DEAD_LETTER, 0, 1, 18])
def test_levels_that_exist(level: int) -> None:
    assert RetryLater(level).delay_level == level


@pytest.mark.parametrize("level", [-2, 19, 99, 1.5, True])
def test_level_that_does_not_exist_is_rejected(level: int) -> None:
    with pytest.raises(ArgumentError, match="delay_level"):
        RetryLater(level)


async def outcome_of(listener: Any, batch: int = 0, in_order: bool = False) -> Failed:
    message = a_message()
    with THE_WORLD.pool(1, "none") as threads:
        call = ListenerCall(listener, batch)
        if not in_order:
            return await call.run([message], threads)
        good, level = await call.run_in_order([message], threads, lambda: False)
        return [] if good else [(message, level or 0)]


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("batch", [0, 5])
@pytest.mark.parametrize("result", [None, False])
async def test_an_awaitable_of_a_plain_listener_runs_on_the_loop(result: object, batch: int, in_order: bool) -> None:
    loops: list[object] = []

    async def handle(given: object) -> object:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        return result

    shapes = [lambda given: handle(given), wrapped(handle), functools.partial(wrapped(handle))]
    for number, listener in enumerate(shapes, 1):
        assert bool(await outcome_of(listener, batch, in_order)) is (result is False)
        assert loops == [asyncio.get_running_loop()] * number


class Theirs(enum.Enum):
    LATER = 1


def numbers() -> Iterator[int]:
    yield 1


SINGLE = [
    ("ok", 0), (0, 0), (1, 0), (1.5, 0), ([], 0), (numpy.True_, 0), (numpy.int64(0), 0), (ConsumeResult.SUCCESS, 0),
    (numpy.False_, 1), (Theirs.LATER, 1), (numbers(), 1), (len, 1), (ConsumeResult.RETRY, 1),
]  # fmt: skip
BATCH = [(0, 1), (1, 0), (-1, 1), (numpy.int64(1), 0), (numpy.int64(0), 1), (numpy.True_, 0), ("ok", 1), ([], 1)]


@pytest.mark.parametrize(("result", "failed"), SINGLE)
async def test_result_of_a_message_listener_decides_its_outcome(result: object, failed: int) -> None:
    assert len(await outcome_of(lambda given: result)) == failed


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("batch", [0, 5])
async def test_the_future_of_an_executor_is_waited_for(batch: int, watched: bool) -> None:
    def work(error: Exception | None) -> None:
        if error is not None:
            raise error

    errors = [ValueError("x"), None]
    with THE_WORLD.pool(1, "theirs") as pool:

        def submit(given: object) -> object:
            return pool.submit(work, errors.pop())

        listener = around(submit, batch, "g", [Interceptor()] if watched else [])
        assert await outcome_of(listener, batch) == []
        assert len(await outcome_of(listener, batch)) == 1

        async def handle(given: object) -> object:
            return pool.submit(work, None)

        assert len(await outcome_of(handle, batch)) == 1


@pytest.mark.parametrize(("result", "failed"), BATCH)
async def test_result_of_a_batch_listener_decides_its_outcome(result: object, failed: int) -> None:
    assert len(await outcome_of(lambda given: result, batch=5)) == failed


async def test_a_value_that_counts_as_success_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    await outcome_of(lambda given: "ok")
    ((_, level, text),) = caplog.record_tuples
    assert (level, text) == (
        logging.WARNING,
        "a listener returned 'ok', which is treated as success: return None, a bool or a ConsumeResult",
    )


async def test_interceptors_see_the_end_of_an_awaitable() -> None:
    seen: list[tuple[bool, BaseException | None]] = []

    class Watch(Interceptor):
        def after_consume(self, call: ConsumeCall) -> None:
            seen.append((call.success, call.error))

    error = ValueError("x")

    async def handle(given: ReceivedMessage) -> None:
        await asyncio.sleep(0)
        if seen:
            raise error

    listener = around(lambda given: handle(given), 0, "g", [Watch()])
    assert await outcome_of(listener) == []
    assert len(await outcome_of(listener)) == 1
    assert seen == [(True, None), (False, error)]


def test_functions_that_would_not_run_are_rejected() -> None:
    def generator(message: ReceivedMessage) -> Iterator[None]:
        yield

    async def asynchronous(message: ReceivedMessage) -> Any:
        yield

    class Handler:
        def __init__(self, message: ReceivedMessage) -> None: ...

    consumer = PushConsumer("g", "127.0.0.1:1")
    for listener, text in (
        (generator, "listener generator is a generator"),
        (asynchronous, "listener asynchronous is a generator"),
        (functools.partial(generator), "is a generator"),
        (Handler, "listener is the class Handler"),
    ):
        with pytest.raises(ArgumentError, match=text):
            consumer.subscribe("T", "*", listener)  # type: ignore[call-overload]  # a mistake of a user
    with pytest.raises(ArgumentError, match="filters generator is a generator"):
        check_filters((generator,))  # type: ignore[arg-type]  # a mistake of a user


class Handlers:
    def one(self, message: ReceivedMessage) -> None: ...
    def some(self, messages: list[ReceivedMessage]) -> None: ...
    def __call__(self, messages: "Sequence[ReceivedMessage]") -> None: ...  # noqa: UP037  a quoted annotation


def evaluated(messages: Any) -> None: ...


def test_annotation_decides_whether_a_listener_takes_a_list() -> None:
    handlers = Handlers()
    assert not takes_list(handlers.one)
    for listener in (handlers.some, handlers, functools.partial(Handlers.some, handlers)):
        assert takes_list(listener)
    for annotation, several in ((list[ReceivedMessage], True), (Sequence[ReceivedMessage], True), (str, False)):
        evaluated.__annotations__["messages"] = annotation
        assert takes_list(evaluated) is several
    for other in (lambda messages: None, [].append, print, dict):
        assert not takes_list(other)


def test_a_filter_that_returns_an_awaitable_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def wants(message: ReceivedMessage) -> bool:
        return False

    message = a_message()
    assert wanted_messages([message], [lambda given: wants(given)], lambda given: None) == ([message], [])  # type: ignore[list-item,return-value]  # a mistake of a user
    assert "it is async: give a plain function" in caplog.text
