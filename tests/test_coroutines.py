"""A coroutine test runs once, in its own event loop. It fails like a plain test, also if nothing awaits it."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CONFTEST = "from tests.conftest import pytest_pyfunc_call"
PASSES = """
import asyncio
import pytest

ran = []

@pytest.fixture
def started():
    yield "fixture"
    assert ran[-1][2].is_closed()

@pytest.mark.parametrize("number", [1, 2])
async def test_ran(started, number):
    await asyncio.sleep(0)
    ran.append((started, number, asyncio.get_running_loop()))

def test_each_ran_once():
    assert [(started, number) for started, number, _ in ran] == [("fixture", 1), ("fixture", 2)]
    assert ran[0][2] is not ran[1][2]
"""
FAILS = {
    "an assertion": "async def test_it():\n    await asyncio.sleep(0)\n    assert False",
    "a result": "async def test_it():\n    return 1",
    "a coroutine without await": "async def test_it():\n    asyncio.sleep(0)",
    "an open event loop": "async def test_it():\n    asyncio.new_event_loop()\n    gc.collect()",
    "a plain function that returns an awaitable": "async def later():\n    yield\n\ndef test_it():\n    return later()",
    "an asynchronous generator": "async def test_it():\n    yield",
    "a coroutine below given": "@given(integers())\nasync def test_it(number):\n    assert False",
}
IMPORTS = "import asyncio\nimport gc\nfrom hypothesis import given\nfrom hypothesis.strategies import integers\n\n"


def test_coroutine_test_runs_in_its_own_loop(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(PASSES)
    pytester.runpytest("-W", "error").assert_outcomes(passed=3)


@pytest.mark.parametrize("body", FAILS.values(), ids=FAILS)
def test_coroutine_test_fails(pytester: pytest.Pytester, body: str) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(IMPORTS + body)
    pytester.runpytest("-W", "error").assert_outcomes(failed=1)
