"""`bolide consume`: messages of a topic on standard output, as lines or as JSON, until told to stop."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import typer

from bolide.cli import output
from bolide.cli.options import Namesrv
from bolide.cli.output import JsonFlag, boundary


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(consume)


def consume(
    topic: str = typer.Argument(help="Topic to read."),
    namesrv: str = Namesrv,
    group: str = typer.Option("bolide-cli-consumer", help="Consumer group; its offsets are stored at the broker."),
    tags: str = typer.Option("*", help='Tag filter, such as "TagA || TagB".'),
    sql: str = typer.Option("", help="SQL92 filter instead of tags (the broker must have enablePropertyFilter)."),
    start: str = typer.Option("first", help="Where a new group starts: first, last, or a time yyyyMMddHHmmss."),
    broadcast: bool = typer.Option(False, "--broadcast", help="Read all queues, whoever else is in the group."),
    count: int = typer.Option(0, "--count", "-c", min=0, help="Stop after so many messages; 0: go on until Ctrl-C."),
    idle: float = typer.Option(0.0, min=0.0, help="Stop when nothing came for so many seconds; 0: wait for ever."),
    as_json: bool = JsonFlag,
) -> None:
    """Print messages as they come."""
    with boundary():
        seen = asyncio.run(_consume(topic, namesrv, group, tags, sql, start, broadcast, count, idle, as_json))
    output.note(f"{seen} consumed")
    if count and seen < count:
        raise typer.Exit(output.FAILED)


async def _consume(
    topic: str,
    namesrv: str,
    group: str,
    tags: str,
    sql: str,
    start: str,
    broadcast: bool,
    count: int,
    idle: float,
    as_json: bool,
) -> int:
    from bolide.client import PushConsumer, ReceivedMessage
    from bolide.client.subscription import sql as sql_expression

    seen = 0
    done = asyncio.Event()
    heard = asyncio.Event()

    async def show(message: ReceivedMessage) -> bool:
        nonlocal seen
        if count and seen >= count:
            return False  # not ours any more: the next consumer of the group gets it
        seen += 1
        heard.set()
        print_message(message, as_json)
        if count and seen >= count:
            done.set()
        return True

    model = "broadcasting" if broadcast else "clustering"
    consumer = PushConsumer(group, namesrv, model=model, start_from=start, concurrency=1)
    consumer.subscribe(topic, sql_expression(sql) if sql else tags, show)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, done.set)
    async with consumer:
        while not done.is_set():
            heard.clear()
            waits = [asyncio.ensure_future(done.wait()), asyncio.ensure_future(heard.wait())]
            finished, pending = await asyncio.wait(waits, timeout=idle or None, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            if not finished:
                break
    return seen


def message_fields(message: Any) -> dict[str, Any]:
    """A message as a JSON object; bytes of a body that are no UTF-8 are shown as escapes."""
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
        "body": message.body.decode("utf-8", "backslashreplace"),
    }


def print_message(message: Any, as_json: bool) -> None:
    """One message on standard output: its JSON, or its body as a line."""
    if as_json:
        output.print_json_line(message_fields(message))
        return
    text = message.body.decode("utf-8", "backslashreplace")
    print(output.printable(text) if sys.stdout.isatty() else text, flush=True)
