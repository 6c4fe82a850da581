"""run(): clients start together and end well at a signal; the second signal ends the process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.client import ArgumentError, BolideError, ClientStateError, PullConsumer, ReceivedMessage, run
from bolide.client.blocking import PushConsumer as BlockingConsumer
from proof.kit.ports import reserve_port
from proof.kit.waiting import PROCESS_PATIENCE, until, until_answered, wait_until
from tests.client.consumer_parts import consumer, fill
from tests.client.patient import Producer, PushConsumer
from tests.client.scripted_broker import ScriptedBroker

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The test's own handlers are there again once `run` has ended."""
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    assert [signal.getsignal(number) for number in SIGNALS] == before


def get(address: str, page: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://{address}{page}", timeout=PROCESS_PATIENCE) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.parametrize("number", SIGNALS)
async def test_signal_drains_and_closes(number: signal.Signals, broker: ScriptedBroker) -> None:
    fill(broker, 6)
    seen: list[bytes] = []
    release = asyncio.Event()

    async def take(message: ReceivedMessage) -> None:
        await release.wait()
        seen.append(message.body)

    push = consumer(broker)
    push.subscribe("T", "*", take)
    producer = Producer("P", broker.address)
    health = f"127.0.0.1:{reserve_port()}"
    running = asyncio.create_task(run(push, producer, health=health, drain_timeout=PROCESS_PATIENCE))
    await until(lambda: sum(broker.offsets.values()) == 0 and len(push._member.owned) >= 2, "the start")
    await until(lambda: sum(count for count, _ in push._member.cached().values()) == 6, "all to be pulled")
    status, report = await asyncio.to_thread(get, health, "/healthz")
    assert (status, report["alive"], list(report["consumers"])) == (200, True, ["G"])

    async def readiness() -> int:
        return (await asyncio.to_thread(get, health, "/readyz"))[0]

    await until_answered(readiness, 200)
    os.kill(os.getpid(), number)
    await until(lambda: push._pulls.paused, "the pulls to stop")
    assert (await asyncio.to_thread(get, health, "/readyz"))[0] == 503
    assert not running.done()
    release.set()
    assert await running is True
    assert len(seen) == 6
    assert sum(offset for (_, topic, _), offset in broker.offsets.items() if topic == "T") == 6
    with pytest.raises(ClientStateError):
        await producer.queues("T")
    assert broker.members["G"] == set()


async def test_listener_that_takes_too_long_is_not_waited_for(broker: ScriptedBroker) -> None:
    fill(broker, 1)
    release = asyncio.Event()
    began = asyncio.Event()

    async def hold(message: ReceivedMessage) -> None:
        began.set()
        await release.wait()

    push = consumer(broker)
    push.subscribe("T", "*", hold)
    running = asyncio.create_task(run(push, drain_timeout=0.01))
    await began.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running is False
    assert sum(broker.offsets.values()) == 0
    release.set()
    await until(lambda: not broker.clients, "the rest of the close")


async def test_client_that_cannot_start_closes_the_others(broker: ScriptedBroker) -> None:
    first, second = consumer(broker), PushConsumer("G", broker.address)
    for each in (first, second):
        each.subscribe("T", "*", lambda message: None)
    with pytest.raises(ClientStateError, match="instance_name"):
        await run(first, second)
    assert broker.members["G"] == set()
    with pytest.raises(ClientStateError, match="is closed"):
        await first.start()


async def test_signal_ends_a_start_that_waits(broker: ScriptedBroker) -> None:
    asked = threading.Event()

    def silent(command: Any) -> None:
        asked.set()

    broker.script[105] = silent  # GET_ROUTEINFO_BY_TOPIC
    push = PushConsumer("G", broker.address)
    push.subscribe("T", "*", lambda message: None)
    running = asyncio.create_task(run(push))
    await until(asked.is_set, "the request for the route")
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running is True


async def test_run_rejects_invalid_clients(broker: ScriptedBroker) -> None:
    blocking = BlockingConsumer("G", broker.address)
    wrong: list[Any] = [PullConsumer("G", broker.address), blocking, "G", None]
    for client in wrong:
        with pytest.raises(ArgumentError, match="cannot be run"):
            await run(client)
    for few in ((), (Producer("P", broker.address),)):
        with pytest.raises(ArgumentError, match="give at least one"):
            await run(*few)
    push = consumer(broker)
    for more in ({"drain_timeout": -1}, {"silent_after": 0}, {"late_after": "x"}, {"health": "here"}):
        with pytest.raises(ArgumentError, match=f"^{next(iter(more))}"):
            await run(push, **more)  # type: ignore[arg-type] # that is the test


async def test_port_that_is_taken_is_one_sentence(broker: ScriptedBroker) -> None:
    with pytest.raises(BolideError, match=f"health {broker.address} cannot be served: .*; give another port"):
        await run(consumer(broker), health=broker.address)


async def test_other_threads_cannot_run(broker: ScriptedBroker) -> None:
    def elsewhere() -> None:
        with pytest.raises(ClientStateError, match="only the main thread"):
            asyncio.run(run(PushConsumer("G", broker.address)))

    await asyncio.to_thread(elsewhere)


STUCK = """
import asyncio, time
from bolide.client import PushConsumer, run

async def main():
    consumer = PushConsumer("G", {address!r}, start_from="first")

    async def block(message):
        print("blocked", flush=True)
        while True:
            time.sleep(0.1)

    consumer.subscribe("T", "*", block)
    await run(consumer)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_second_signal_ends_a_process_whose_loop_is_blocked(
    number: signal.Signals, broker: ScriptedBroker, tmp_path: Path
) -> None:
    fill(broker, 1)
    program = tmp_path / "stuck.py"
    program.write_text(STUCK.format(address=broker.address))
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.readline() == b"blocked\n"
            process.send_signal(number)
            # Two signals of one kind that are both pending are one: the second is sent until it has its effect.
            wait_until(lambda: process.send_signal(number) or process.poll() is not None, "the end")  # type: ignore[func-returns-value] # None is falsy
            assert process.returncode == 128 + number
            assert b"a second signal ends the process" in process.stderr.read()
        finally:
            process.kill()
