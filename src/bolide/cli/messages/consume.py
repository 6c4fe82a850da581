"""`bolide consume`: prints the messages of a topic, as lines or as JSON, until it is stopped."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.decoding import MessageOption, RegistryOption, SchemaOption, decoder_of
from bolide.cli.contexts.options import Namesrv
from bolide.cli.terminal import output
from bolide.cli.terminal.closed_pipe import unread, when_closed
from bolide.cli.terminal.moment import FORMS, start_of
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.errors import BolideError
from bolide.layout.names import TOOLS_GROUP

if TYPE_CHECKING:
    from bolide.bodies.decoding import Decode
    from bolide.client import PullConsumer, ReceivedMessage, StartFrom

QUEUES_S: Final = 30.0
"""Seconds between two checks for new queues of a topic."""
ROUTE_POLL_S: Final = 1.0
UNREAD_POLL_S: Final = 0.0002
UNREAD_S: Final = 1.0
"""Seconds after a signal for which to wait until the reader of a pipe has read the output."""
LOOK_S: Final = 0.5
"""Seconds between two checks whether the group was rejected or has been idle for long enough."""
SUSPEND_S: Final = 10.0
"""Seconds for which a broker holds a pull."""


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(consume)


def consume(
    topic: str = typer.Argument(help="Topic to read.", autocompletion=completions.topics),
    namesrv: str = Namesrv,
    group: str = typer.Option(
        "", help="Consumer group to join; without one no offsets are stored.", autocompletion=completions.groups
    ),
    tags: str = typer.Option("*", help='Tag filter, such as "TagA || TagB".'),
    sql: str = typer.Option("", help="SQL92 filter instead of tags (the broker must have enablePropertyFilter)."),
    start: str = typer.Option(
        "first", help=f"Where to start (with --group: where a new group starts): first, last, or {FORMS}."
    ),
    broadcast: bool = typer.Option(False, "--broadcast", help="With --group: read all queues, not a share of them."),
    count: int = typer.Option(0, "--count", "-c", min=0, help="Stop after this many messages; 0: run until Ctrl-C."),
    idle: float = typer.Option(0.0, min=0.0, help="Stop if no message arrives for this many seconds; 0: wait."),
    schema: Path | None = SchemaOption,
    message: str = MessageOption,
    registry: str = RegistryOption,
    as_json: bool = JsonFlag,
) -> None:
    """Print the messages of a topic."""
    if broadcast and not group:
        output.fail("--broadcast is for a group: give --group NAME, or leave it out to read all queues", output.USAGE)
    with boundary():
        printing = Printing(count, as_json, decoder_of(schema, message, registry))
    from bolide.client.messages.arguments import check_topic  # the daemons share this command line and need no client

    with boundary():
        check_topic(topic)  # otherwise an invalid name waits for a topic that cannot exist
        begin = start_of("--start", start)
        asyncio.run(_consume(Reading(topic, namesrv, group, tags, sql, begin, broadcast, idle), printing))
    output.note(f"{printing.seen} consumed")
    if printing.closed:
        output.end_closed()
    if count and printing.seen < count:
        raise typer.Exit(output.FAILED)


@dataclass(frozen=True)
class Reading:
    """The arguments of the command that select the messages."""

    topic: str
    namesrv: str
    group: str
    tags: str
    sql: str
    start: StartFrom
    broadcast: bool
    idle: float


class Printing:
    """Prints messages until the requested number is reached or the reader has closed the pipe."""

    def __init__(self, count: int, as_json: bool, decode: Decode | None = None) -> None:
        self.seen = 0
        self.closed = False
        self.done = asyncio.Event()
        self.heard = asyncio.Event()
        self._count = count
        self._as_json = as_json
        self._decode = decode
        self._unread_until = inf

    def stop(self) -> None:
        """Stop printing. Called after a signal."""
        self._unread_until = min(self._unread_until, asyncio.get_running_loop().time() + UNREAD_S)
        self.done.set()

    def close(self) -> None:
        """Stop printing. Called when the reader has closed the pipe."""
        self.closed = True
        self.done.set()

    async def show(self, message: ReceivedMessage) -> bool:
        """Print a message. Returns False if printing has stopped; the caller must then not consume the message. Raises
        `RegistryError` if a registry fails."""
        if self.done.is_set():
            return False
        value = None if self._decode is None else await self._decoded(message, self._decode)
        if self.done.is_set():
            return False
        try:
            print_message(message, self._as_json, value)
        except BrokenPipeError:
            self.close()
            return False
        self.seen += 1
        self.heard.set()
        if self.seen == self._count:
            self.done.set()
        return True

    async def _decoded(self, message: ReceivedMessage, decode: Decode) -> str | None:
        """Return the decoded body as JSON, or print a note and return None if it cannot be decoded."""
        from bolide.bodies.decoding import as_text
        from bolide.bodies.registry import UnfitBody

        try:
            return as_text(await asyncio.to_thread(decode, message.body))  # it may call a registry
        except UnfitBody as error:
            output.note(f"the body of {message.message_id} is not decoded: {error}")
            return None

    async def taken(self) -> bool:
        """Wait until the reader of a pipe has read the output. Returns immediately for other outputs.

        Returns False if the reader closes the pipe first, or does not read it after a signal. Then `seen` does not
        count the message.
        """
        loop = asyncio.get_running_loop()
        while unread():
            if self.closed or loop.time() >= self._unread_until:
                self.seen -= 1
                return False
            await asyncio.sleep(UNREAD_POLL_S)
        return True


async def _consume(reading: Reading, printing: Printing) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, printing.stop)
    with when_closed(printing.close):
        await _until_it_is_there(reading, printing)
        if reading.group:
            await _as_member(reading, printing)
        else:
            await _as_onlooker(reading, printing)


async def _until_it_is_there(reading: Reading, printing: Printing) -> None:
    """Print a note and wait until the topic exists. Raises if no name server can be reached at the first look."""
    from bolide.admin.client import Admin
    from bolide.client.messages.errors import TopicNotFound

    loop = asyncio.get_running_loop()
    end = loop.time() + reading.idle if reading.idle else inf
    said = missed = False
    async with Admin(reading.namesrv) as admin:
        while not printing.done.is_set():
            try:
                await admin.topic_route(reading.topic)
                return
            except TopicNotFound:
                if not said:
                    output.note(f"topic {reading.topic} does not exist yet: waiting for its first message")
                    said = True
            except BolideError as error:
                if not said:
                    raise
                if not missed:
                    output.note(f"{error}; still waiting for topic {reading.topic}")
                    missed = True
            left = end - loop.time()
            if left <= 0:
                printing.done.set()
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(printing.done.wait(), min(left, ROUTE_POLL_S))


async def _as_member(reading: Reading, printing: Printing) -> None:
    """Read as a member of a group."""
    from bolide.client import PushConsumer

    async def listen(message: ReceivedMessage) -> None:
        if not await printing.show(message) or not await printing.taken():
            # Cancel the calling worker, like a stop. Then the message is neither consumed nor returned for retry, which
            # would be an attempt. The group's next member gets it.
            worker = asyncio.current_task()
            assert worker is not None
            worker.cancel()
            await asyncio.sleep(0)

    model: Literal["clustering", "broadcasting"] = "broadcasting" if reading.broadcast else "clustering"
    consumer = PushConsumer(reading.group, reading.namesrv, model=model, start_from=reading.start, concurrency=1)
    consumer.subscribe(reading.topic, _expression(reading), listen)
    loop = asyncio.get_running_loop()
    async with consumer:
        last = loop.time()
        while not printing.done.is_set():
            printing.heard.clear()
            waits = [asyncio.ensure_future(event.wait()) for event in (printing.done, printing.heard)]
            finished, pending = await asyncio.wait(waits, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            if finished:
                last = loop.time()
            elif consumer.refusal is not None:
                raise consumer.refusal
            elif reading.idle and loop.time() - last >= reading.idle:
                printing.done.set()
        consumer.pause()


async def _as_onlooker(reading: Reading, printing: Printing) -> None:
    """Read all queues without joining a group, and commit no offsets."""
    from bolide.client import PullConsumer

    # Every broker has this predefined group, so this also works without autoCreateSubscriptionGroup.
    start = reading.start
    consumer = PullConsumer(TOOLS_GROUP, reading.namesrv, start_from=start, auto_commit=False, suspend=SUSPEND_S)
    async with consumer:
        over = asyncio.ensure_future(printing.done.wait())
        reader = asyncio.ensure_future(_look(consumer, reading, printing))
        await asyncio.wait((over, reader), return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        reader.cancel()
        await asyncio.wait((over, reader))
        if not reader.cancelled():
            reader.result()


async def _look(consumer: PullConsumer, reading: Reading, printing: Printing, every: float = QUEUES_S) -> None:
    """Print messages, and check for new queues of the topic `every` seconds. After the first check, a check that fails
    prints a note, and reading continues."""
    loop = asyncio.get_running_loop()
    held: list[Any] = []
    looked, last, missed = -every, loop.time(), False
    while not printing.done.is_set():
        now = loop.time()
        if now - looked >= every:  # a topic may get more queues, and brokers
            looked = now
            try:
                queues = await consumer.queues(reading.topic)
                if queues != held:
                    await consumer.assign(queues, _expression(reading))
                    held = queues
            except BolideError as error:
                if not held:
                    raise
                if not missed:
                    output.note(f"{error}; reading continues, and new queues of {reading.topic} are read later")
                missed = True
            else:
                missed = False
        wait = min(every, max(0.0, reading.idle - (now - last))) if reading.idle else every
        messages = await consumer.poll(wait)
        if messages:
            last = loop.time()
        elif reading.idle and loop.time() - last >= reading.idle:
            return
        for message in messages:
            if not await printing.show(message):
                return


def _expression(reading: Reading) -> Any:
    from bolide.client.messages.subscription import sql

    return sql(reading.sql) if reading.sql else reading.tags


def message_fields(message: Any, *, unreadable: bool = False) -> dict[str, Any]:
    """Return a message as a JSON object for `bolide produce --from-json`. Invalid UTF-8 in a body is escaped; an
    additional field then contains the bytes in base64.

    Raises `CompressionError` if the body cannot be inflated, unless `unreadable` is set: then the body is "", and
    another field contains the error.
    """
    whole: dict[str, str] = {}
    try:
        body = message.body.decode()
    except BolideError as error:
        if not unreadable:
            raise
        body, whole = "", {"body_error": str(error)}
    except UnicodeDecodeError:
        body = message.body.decode("utf-8", "backslashreplace")
        whole = {"body_base64": base64.b64encode(message.body).decode()}
    return {
        "topic": message.topic,
        "broker": message.broker_name,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "message_id": message.message_id,
        "offset_message_id": message.offset_message_id,
        "tags": message.tags,
        "keys": message.keys,
        "properties": message.properties,
        "born_timestamp": message.born_timestamp,
        "store_timestamp": message.store_timestamp,
        "reconsume_times": message.reconsume_times,
        "body": body,
        **whole,
    }


def print_message(message: Any, as_json: bool, value: str | None = None) -> None:
    """Print a message as JSON, or its body as a line. `value` is its decoded body as JSON."""
    if as_json:
        decoded = {} if value is None else {"value": json.loads(value)}
        output.print_json_line(message_fields(message) | decoded)
        return
    text = message.body.decode("utf-8", "backslashreplace") if value is None else value
    print(output.printable(text) if sys.stdout.isatty() else text, flush=True)
