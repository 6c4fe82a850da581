"""run(): a process that consumes until a signal, then stops gracefully.

The first SIGTERM or SIGINT stops the pulls, lets the listeners finish all pulled messages, stores the offsets and
leaves the groups. The second signal ends the process immediately; unfinished messages are redelivered.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Coroutine, Sequence
from types import FrameType
from typing import Any, Final

from bolide.client.consuming.push_consumer import PushConsumer
from bolide.client.messages.arguments import check_seconds, shown
from bolide.client.messages.checked import checked
from bolide.client.messages.errors import ClientStateError
from bolide.client.producing.producer import Producer
from bolide.client.worker_health import WorkerHealth
from bolide.errors import ArgumentError, BolideError, ConfigError
from bolide.transport.address import split_address
from bolide.world.contract import World
from bolide.world.real import THE_WORLD
from bolide.world.tasks import end_tasks

log = logging.getLogger("bolide.client")

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
START_PATIENCE: Final = 5.0
"""Seconds that starting clients get to finish their start after a signal."""
CLOSE_PATIENCE: Final = 5.0
"""Seconds that `run` waits for the clients to close after `drain_timeout`."""

Client = PushConsumer | Producer


@checked
async def run(
    *clients: Client,
    drain_timeout: float = 20.0,
    health: str = "",
    late_after: float = 10.0,
    silent_after: float = 900.0,
    world: World | None = None,
) -> bool:
    """Start consumers and producers, wait for SIGTERM or SIGINT, and close them: ``asyncio.run(run(kitchen, cashier))``

    Consumers get `drain_timeout` seconds to finish their pulled messages. Returns True if they did, otherwise False,
    and unfinished messages are redelivered. Consumers close before the producers, which their listeners may use. A
    second signal ends the process immediately, with the status 128 plus the number of the signal.

    `health` is a ``host:port`` that serves /healthz and /readyz, or "". /healthz returns 503 if the event loop is more
    than `late_after` seconds late. It also returns 503 if a consumer with queues has neither pulled nor ended a
    listener call for `silent_after` seconds: choose a value above the longest call. /readyz returns 200 from the start
    to the signal.

    Raises `ArgumentError`, `ClientStateError` outside the main thread, and the errors of a client's start, after all
    clients have been closed.
    """
    _check(clients)
    check_seconds("drain_timeout", drain_timeout, zero=True)
    check_seconds("late_after", late_after)
    check_seconds("silent_after", silent_after)
    consumers = [client for client in clients if isinstance(client, PushConsumer)]
    around = world or THE_WORLD
    liveness = WorkerHealth(consumers, late_after, silent_after, around.monotonic)
    with _Signals() as signals:
        page = await _served(health, liveness, around)
        beat = asyncio.create_task(liveness.beat(), name="bolide liveness")
        drained = True
        try:
            if await _unless(signals.stopped, _start(clients)):
                liveness.started = True
                log.info("running: %s; a signal ends it", ", ".join(_name(client) for client in clients))
                await signals.stopped.wait()
                liveness.started = False
            log.info("stopping: listeners have %s s to finish; a second signal ends it now", drain_timeout)
            drained = await _drain(consumers, drain_timeout)
        finally:
            await _close(clients)
            await end_tasks([beat])
            if page is not None:
                await page.stop()
    return drained


class _Signals:
    """Handles the signals inside its `with` block: the first sets `stopped`, the second ends the process.

    Handlers of the `signal` module run even if a listener blocks the loop. Resetting them to the default instead would
    not work: the kernel ignores signals with default handlers in the first process of a container.
    """

    def __init__(self) -> None:
        self.stopped = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._before: dict[signal.Signals, Any] = {}
        self._count = 0

    def __enter__(self) -> _Signals:
        try:
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        except ValueError as error:
            raise ClientStateError("run() handles signals, which only the main thread can do: call it there") from error
        return self

    def __exit__(self, *error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1:
            os.write(2, b"bolide: a second signal ends the process; unfinished messages are redelivered\n")
            os._exit(128 + number)
        self._loop.call_soon_threadsafe(self.stopped.set)


def _check(clients: Sequence[object]) -> None:
    for client in clients:
        if not isinstance(client, Client):
            raise ArgumentError(
                f"client {shown(client)} cannot be run, give PushConsumer and Producer objects of bolide.client: a"
                " PullConsumer has a loop of yours, and synchronous listeners run in threads here too",
                "clients",
            )
    if not any(isinstance(client, PushConsumer) for client in clients):
        raise ArgumentError("clients has no PushConsumer, give at least one", "clients")


def _name(client: Client) -> str:
    return f"{'consumer' if isinstance(client, PushConsumer) else 'producer'} {client.group}"


async def _start(clients: Sequence[Client]) -> None:
    """Start the producers, which listeners may use, and then the consumers."""
    for client in sorted(clients, key=lambda each: isinstance(each, PushConsumer)):
        await client.start()


async def _unless(stopped: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run `work` unless `stopped` is set before it ends. Return whether it has finished.

    A consumer whose start is interrupted does not wait for its listeners, so `work` first gets some time to finish.
    """
    doing = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((doing, waiting), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((doing,), timeout=START_PATIENCE)
        if doing.done():
            await doing
        return doing.done()
    finally:
        await end_tasks((doing, waiting))


async def _drain(consumers: Sequence[PushConsumer], timeout: float) -> bool:
    results = await asyncio.gather(*(consumer.drain(timeout) for consumer in consumers), return_exceptions=True)
    for consumer, result in zip(consumers, results, strict=True):
        if isinstance(result, ClientStateError):
            continue  # the signal arrived before it had started
        if isinstance(result, BaseException):
            log.error("consumer %s could not store its offsets: %s", consumer.group, result)
        elif not result:
            log.warning(
                "consumer %s has not finished within %s s: the rest is redelivered", consumer.group, timeout
            )
    return all(result is True or isinstance(result, ClientStateError) for result in results)


async def _close(clients: Sequence[Client]) -> None:
    """Close consumers, then producers. A client that is slow or fails does not keep the others open."""
    for kind in (PushConsumer, Producer):
        await asyncio.gather(*(_close_one(client) for client in clients if isinstance(client, kind)))


async def _close_one(client: Client) -> None:
    try:
        async with asyncio.timeout(CLOSE_PATIENCE):
            await client.close()
    except Exception as error:
        if isinstance(error, TimeoutError) and not isinstance(error, BolideError):
            log.warning("%s is still busy, not waiting for it any longer", _name(client))
            return
        log.error("closing %s failed", _name(client), exc_info=error)


async def _served(health: str, liveness: WorkerHealth, world: World) -> Any:
    """Start the server of the health pages. Return it, or None if `health` is empty."""
    if not health:
        return None
    from bolide.monitor.server import MonitorServer  # only workers with a page need it

    try:
        host, port = split_address(health)
    except ConfigError as error:
        raise ArgumentError(f"health: {error}", "health") from None
    try:
        bound = world.bind(host, port)
        server = MonitorServer(world, bound, {"/healthz": liveness.alive, "/readyz": liveness.ready})
        try:
            await server.start()
        except BaseException:
            await server.stop()
            raise
    except (OSError, BolideError) as error:
        raise ClientStateError(f"health {health} cannot be served: {error}; give another port") from error
    log.info("/healthz and /readyz are served at http://%s:%d", host, bound.port)
    return server
