"""Pages that take long are shared by those who wait, and made half of the time at most."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bolide.monitor.http import PageAnswer, Request, said
from bolide.monitor.shared_page import SharedPage

ASKED = Request("GET", "/metrics")


def kind(request: Request) -> str:
    return request.accept


class Slow:
    """A page on a clock of its own."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.made: list[Request] = []

    async def page(self, request: Request) -> PageAnswer:
        self.made.append(request)
        self.now += self.seconds
        return said(200, f"number {len(self.made)}")


async def test_requests_that_wait_share_a_page() -> None:
    slow = Slow(0.0)
    shared = SharedPage(slow.page, kind, lambda: slow.now)
    answers = await asyncio.gather(*(shared.page(ASKED) for _ in range(6)), shared.page(replace(ASKED, method="HEAD")))
    assert {answer.body for answer in answers} == {b"number 1\n"}
    assert (await shared.page(ASKED)).body == b"number 2\n"
    other = replace(ASKED, accept="application/openmetrics-text")
    await asyncio.gather(shared.page(ASKED), shared.page(other))
    assert slow.made[2:] == [ASKED, other]


async def test_a_request_that_ends_early_takes_the_page_from_no_other() -> None:
    slow = Slow(0.0)
    shared = SharedPage(slow.page, kind, lambda: slow.now)
    first, second = asyncio.create_task(shared.page(ASKED)), asyncio.create_task(shared.page(ASKED))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).body == b"number 1\n"


async def test_the_thread_is_free_for_as_long_as_the_page_took() -> None:
    slow = Slow(3600.0)
    shared = SharedPage(slow.page, kind, lambda: slow.now)
    await shared.page(ASKED)
    again = [asyncio.create_task(shared.page(replace(ASKED, accept=accept))) for accept in ("", "other")]
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(slow.made) == 1
    for task in again:
        task.cancel()
    slow.now += 3600.0
    await shared.page(replace(ASKED, accept="third"))
    assert len(slow.made) == 2


async def test_pages_of_other_kinds_wait_for_each_other() -> None:
    slow, loop = Slow(0.001), asyncio.get_running_loop()
    shared = SharedPage(slow.page, kind, lambda: slow.now + loop.time())
    await shared.page(ASKED)
    slow.seconds = 3600.0
    tasks = [loop.create_task(shared.page(replace(ASKED, accept=accept))) for accept in ("", "other")]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(slow.made) == 2, "both had waited until the same time"
    for task in tasks:
        task.cancel()


async def test_a_page_that_fails_is_made_again() -> None:
    async def broken(request: Request) -> PageAnswer:
        raise ZeroDivisionError("a figure")

    shared = SharedPage(broken, kind, lambda: 0.0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await shared.page(ASKED)
