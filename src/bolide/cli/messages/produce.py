"""`bolide produce`: sends messages from standard input or the command line, as lines or as JSON."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.options import Namesrv
from bolide.cli.entry import INTERRUPTED
from bolide.cli.terminal import output
from bolide.cli.terminal.closed_pipe import when_closed
from bolide.cli.terminal.lines import lines_of
from bolide.cli.terminal.moment import FORMS, moment_of
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.errors import ConfigError, ConnectionLost, RequestTimeout
from bolide.layout import property_names as names

if TYPE_CHECKING:
    from bolide.client.messages.message import Message

_CONSUMED: Final = {"offset_message_id", "queue_offset", "store_timestamp"}
"""Fields of each line that `bolide consume --json` prints."""
IN_FLIGHT: Final = 256
"""Maximum number of messages in flight."""


@dataclass
class Sent:
    """The results so far."""

    stored: int = 0
    failed: int = 0
    unreached: int = 0
    """Number of failed messages that could not reach a server."""
    closed: bool = False
    """Whether the reader of the output has closed the pipe."""


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(produce)


def produce(
    topic: str = typer.Argument(help="Topic to send to.", autocompletion=completions.topics),
    body: list[str] = typer.Argument(None, help="Bodies; without one, each line of standard input is a message."),
    namesrv: str = Namesrv,
    tags: str = typer.Option("", help="Tag of every message."),
    keys: str = typer.Option("", help="Keys of every message, separated by blanks."),
    sharding_key: str = typer.Option("", help="Messages with one sharding key go to one queue."),
    delay_level: int = typer.Option(0, min=0, max=18, help="Deliver later: 1 is 1 s, 18 is 2 h."),
    delay: float = typer.Option(0.0, min=0.0, help="Deliver after this many seconds."),
    deliver_at: str = typer.Option("", help=f"Deliver at this time: {FORMS}."),
    group: str = typer.Option("bolide-cli-producer", help="Producer group."),
    from_json: bool = typer.Option(
        False,
        "--from-json",
        help='Each line is an object: {"body": "...", "tags": "...", "keys": [...], "properties": {...}, "delay": 5},'
        " or a line of consume --json.",
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Send messages and show where each was stored."""
    from bolide.client.messages.message import Message  # the daemons share this command line and need no client

    with boundary():
        moment = moment_of("--deliver-at", deliver_at) if deliver_at else None
        model = Message(
            topic, tags=tags, keys=keys, delay_level=delay_level, sharding_key=sharding_key, delay=delay,
            deliver_at=moment,
        )  # fmt: skip

        def message(line: str) -> Message:
            return message_from_json(line, model) if from_json else replace(model, body=_bytes(line))

        sent = Sent()
        status = output.DONE
        try:
            asyncio.run(send_all(namesrv, group, body or None, message, as_json, sent))
        except asyncio.CancelledError:
            status = INTERRUPTED
    if not as_json or sent.closed:
        output.note(f"{sent.stored} sent, {sent.failed} failed")
    if sent.closed:
        output.end_closed()
    if status or sent.failed:
        unreached = sent.failed == sent.unreached and not sent.stored
        raise typer.Exit(status or (output.UNREACHABLE if unreached else output.FAILED))


def message_from_json(line: str, model: Message) -> Message:
    """Return the message of an input line, with missing fields from `model`. Raises `ConfigError` if it is invalid.

    A line of `bolide consume --json` is sent to the topic of the command, not to its original topic, and without the
    properties that RocketMQ sets.
    """
    try:
        given: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{line[:60]!r} is not JSON: {error}") from None
    if not isinstance(given, dict) or "body" not in given:
        raise ConfigError(f'{line[:60]!r} must be an object with a "body"')
    content, keys, properties = given["body"], given.get("keys") or model.keys, given.get("properties") or {}
    topic, sharding_key = given.get("topic"), given.get("sharding_key")
    if given.keys() >= _CONSUMED and isinstance(properties, dict):
        topic, sharding_key = None, properties.get(names.SHARDING_KEY)
        properties = {name: value for name, value in properties.items() if name not in names.RESERVED}
    for name in ("topic", "tags", "sharding_key"):
        if not isinstance(given.get(name) or "", str):
            raise ConfigError(f"{name} is {given[name]!r}: give one text")
    if not isinstance(keys, str) and not (isinstance(keys, list) and all(isinstance(key, str) for key in keys)):
        raise ConfigError(f"keys is {keys!r}: give a text or a list of texts")
    if not isinstance(properties, dict):
        raise ConfigError(f"properties is {properties!r}: give an object")
    try:
        level, delay = int(given.get("delay_level") or 0), float(given.get("delay") or 0)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError("delay_level and delay must be numbers") from None
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return replace(
        model,
        topic=topic or model.topic,
        body=_decoded(given["body_base64"]) if "body_base64" in given else _bytes(text),
        tags=given.get("tags") or model.tags,
        keys=keys,
        properties={str(name): str(value) for name, value in properties.items()},
        delay_level=level or model.delay_level,
        sharding_key=sharding_key or model.sharding_key,
        delay=delay or model.delay,
    )


async def _given(bodies: list[str]) -> AsyncIterator[str]:
    for body in bodies:
        yield body


async def send_all(
    namesrv: str, group: str, bodies: list[str] | None, message: Callable[[str], Message], as_json: bool, sent: Sent
) -> None:
    """Send every line in order, with hundreds in flight, and print each result when it arrives.

    After a signal, or when the reader of the output closes the pipe, it waits for the outstanding results and raises
    `asyncio.CancelledError`.
    """
    from bolide.client import Producer

    me = asyncio.current_task()
    assert me is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, me.cancel)
    waiting: asyncio.Queue[tuple[int, asyncio.Future[Any]] | None] = asyncio.Queue()
    room = asyncio.Semaphore(IN_FLIGHT)
    ending = False

    def close() -> None:
        if not sent.closed:
            sent.closed = True
            if not ending:
                me.cancel()

    def settle(number: int, future: asyncio.Future[Any]) -> None:
        error = future.exception()
        if error is not None:
            sent.failed += 1
            sent.unreached += isinstance(error.__cause__ or error, (ConnectionLost, RequestTimeout))
            output.note(f"bolide: message {number}: {error}")
            return
        sent.stored += 1
        if not sent.closed:
            try:
                tell(future.result(), as_json)
            except BrokenPipeError:
                close()

    async def settle_in_order() -> None:
        while (next_ := await waiting.get()) is not None:
            await asyncio.wait([next_[1]])
            room.release()
            settle(*next_)

    with when_closed(close):
        async with Producer(group, namesrv) as producer:
            settling = asyncio.ensure_future(settle_in_order())
            begun: set[str] = set()
            line = 0
            try:
                async for text in lines_of(sys.stdin.fileno()) if bodies is None else _given(bodies):
                    line += 1
                    if not text and bodies is None:  # a blank line; an empty argument is rejected like any empty body
                        continue
                    try:
                        made = message(text)
                    except ConfigError as error:
                        raise ConfigError(f"line {line} is not a message: {error}") from None
                    await room.acquire()
                    # No await between these two lines, so that every send is counted.
                    future: asyncio.Future[Any] = asyncio.ensure_future(producer.send(made))
                    waiting.put_nowait((line, future))
                    if made.topic not in begun:
                        # Later lines must not overtake the first of a topic while it waits for the topic's route.
                        begun.add(made.topic)
                        await asyncio.wait([future])
            finally:
                ending = True
                waiting.put_nowait(None)
                await settling


def tell(result: Any, as_json: bool) -> None:
    """Print a line with the location of a stored message. Raises `BrokenPipeError` if the reader closed the pipe."""
    if as_json:
        output.print_json_line(
            {
                "message_id": result.message_id,
                "broker": result.queue.broker_name,
                "queue_id": result.queue.queue_id,
                "queue_offset": result.queue_offset,
                "status": result.status.name,
                **({"recall_handle": result.recall_handle} if result.recall_handle else {}),
            }
        )
    else:
        where = f"{result.queue.broker_name}:{result.queue.queue_id}"
        print(f"{result.message_id} {where} offset {result.queue_offset} {result.status.name}", flush=True)


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(text if isinstance(text, str) else "?", validate=True)
    except ValueError:
        raise ConfigError("body_base64 is not base64: give the bytes of the body in that form") from None


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # invalid UTF-8 is sent unchanged
    except UnicodeEncodeError:
        raise ConfigError("the body has half a surrogate pair, which is not valid UTF-8: write both escapes") from None
