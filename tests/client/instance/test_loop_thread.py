"""The blocking client's loop thread: an interrupted caller, and what becomes of a result that it did not receive."""

from __future__ import annotations

import _thread
import asyncio
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn

import pytest

from bolide.client import ConsumeCall, Interceptor
from bolide.client.instance.loop_thread import loop_thread
from proof.kit.waiting import wait_until
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
