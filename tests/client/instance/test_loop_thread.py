"""The blocking client's loop thread: an interrupted caller, and what becomes of a result that it did not receive."""

from __future__ import annotations

import _thread
import asyncio
import signal
import threading
from collections.abc import Iterator
from functools import partial
from typing import NoReturn

import pytest

from bolide.client import ConsumeCall, Interceptor
from bolide.client.instance.loop_thread import loop_thread
from proof.kit.waiting import PATIENCE, wait_until
from tests.client.patient_blocking import PullConsumer
from tests.client.scripted_broker import ScriptedBroker


class Interrupted(Exception):
    """What a signal handler of the user raises."""


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGALRM raises `Interrupted` in the main thread."""

    def handle(number: int, frame: object) -> NoReturn:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handle)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def interrupt() -> None:
    ident = threading.main_thread().ident
    assert ident is not None
    signal.pthread_kill(ident, signal.SIGALRM)


@pytest.mark.usefixtures("interrupts")
def test_a_result_that_the_interrupted_caller_did_not_receive_is_taken_back() -> None:
    lost: list[int] = []

    async def work() -> int:
        interrupt()
        return 42

    with pytest.raises(Interrupted):
        loop_thread().run(work, lost.append)
    wait_until(lambda: lost == [42], "the result to be taken back")


@pytest.mark.usefixtures("interrupts")
def test_a_result_that_comes_in_spite_of_the_cancellation_is_taken_back() -> None:
    lost: list[int] = []

    async def work() -> int:
        interrupt()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return 42
        return 0

    with pytest.raises(Interrupted):
        loop_thread().run(work, lost.append)
    wait_until(lambda: lost == [42], "the result to be taken back")


@pytest.mark.usefixtures("interrupts")
def test_a_signal_that_does_not_wake_the_caller_interrupts_it() -> None:
    """As one that arrives between the last look at signals and the sleep of the thread."""
    ended = threading.Event()

    async def work() -> None:
        _thread.interrupt_main(signal.SIGALRM)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(Interrupted):
        loop_thread().run(work)
    wait_until(ended.is_set, "the work to be cancelled")


def test_a_timeout_that_the_work_raises_reaches_the_caller() -> None:
    async def work() -> None:
        raise TimeoutError("the work's own")

    with pytest.raises(TimeoutError, match="the work's own"):
        loop_thread().run(work)


class InterruptsPolls(Interceptor):
    """Interrupts the main thread when a poll has taken its messages and has not returned them yet."""

    left = 5

    def after_consume(self, call: ConsumeCall) -> None:
        if self.left:
            self.left -= 1
            interrupt()


@pytest.mark.parametrize("how", ["poll", "iterate"])
@pytest.mark.usefixtures("interrupts")
def test_messages_that_a_poll_took_for_an_interrupted_caller_are_polled_again(how: str, broker: ScriptedBroker) -> None:
    broker.on_loop(lambda: [broker.store("T", number % 2, b"%d" % number, "") for number in range(20)])
    seen: list[bytes] = []
    times = 0
    interceptor = InterruptsPolls()
    with PullConsumer("G", broker.address, start_from="first", suspend=0.5, interceptors=(interceptor,)) as consumer:
        consumer.subscribe("T")
        while len(seen) < 20:
            try:
                messages = consumer.poll(max_messages=3) if how == "poll" else [next(iter(consumer))]
                seen += [message.body for message in messages]
            except Interrupted:
                times += 1
        assert consumer.poll(0.0) == []
    assert times == 5
    assert sorted(seen, key=int) == [b"%d" % number for number in range(20)]
    assert (broker.offsets["G", "T", 0], broker.offsets["G", "T", 1]) == (10, 10)


def test_calls_of_many_threads_run_in_the_order_of_each() -> None:
    loop = loop_thread()
    seen: list[tuple[int, int]] = []

    def note(place: tuple[int, int]) -> asyncio.Future[int]:
        seen.append(place)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.set_result(place[1])
        return future

    def work(thread: int) -> None:
        futures = [loop.submit(partial(note, (thread, number))) for number in range(200)]
        assert [future.result(PATIENCE) for future in futures] == list(range(200))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(seen) == 800
    for number in range(4):
        assert [place for thread, place in seen if thread == number] == list(range(200))


def test_a_call_that_raises_does_not_stop_the_next_ones() -> None:
    loop = loop_thread()

    def fail() -> asyncio.Future[int]:
        raise SystemExit(3)

    def succeed() -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.set_result(1)
        return future

    failed, done = loop.submit(fail), loop.submit(succeed)
    assert isinstance(failed.exception(PATIENCE), SystemExit)
    assert done.result(PATIENCE) == 1


def test_a_future_that_is_cancelled_cancels_its_work() -> None:
    loop = loop_thread()
    waiting: list[asyncio.Future[int]] = []
    cancelled = threading.Event()

    def wait() -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: cancelled.set() if done.cancelled() else None)
        waiting.append(future)
        return future

    future = loop.submit(wait)
    wait_until(lambda: bool(waiting), "the call")
    assert future.cancel()
    assert cancelled.wait(PATIENCE)
