"""`bolide message`: find and show single messages and their traces, and recall a delayed one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.admin_call import call
from bolide.cli.contexts.options import Namesrv
from bolide.cli.messages.consume import message_fields
from bolide.cli.terminal import output
from bolide.cli.terminal.moment import FORMS, moment_of
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.layout.limits import MAX_FOUND
from bolide.layout.names import TRACE_TOPIC

if TYPE_CHECKING:
    from bolide.admin.tracing import FoundTrace

app = typer.Typer()
_MORE: Final = f"set --count up to {MAX_FOUND}, or search a time in the console"


@app.command()
def get(
    message_id: str = typer.Argument(..., help="The producer's or the broker's message id."),
    topic: str | None = typer.Option(
        None, "--topic", "-t", help="Its topic; required for a producer's id.", autocompletion=completions.topics
    ),
    namesrv: str = Namesrv,
    as_json: bool = JsonFlag,
) -> None:
    """Show the message with an id."""
    with boundary():
        found = call(namesrv, lambda admin: admin.message(message_id, topic))
        if found is None:
            where = (
                f" in topic {topic}"
                if topic
                else ": if it is a producer's id, as `bolide produce` shows it, give --topic"
            )
            output.fail(f"no message {message_id} is stored{where}")
        show(found, as_json)


@app.command()
def at(
    topic: str = typer.Argument(..., help="Topic.", autocompletion=completions.topics),
    broker: str = typer.Argument(..., help="Broker name.", autocompletion=completions.brokers),
    queue_id: int = typer.Argument(..., min=0, help="Queue."),
    offset: int = typer.Argument(..., min=0, help="Offset in the queue."),
    namesrv: str = Namesrv,
    as_json: bool = JsonFlag,
) -> None:
    """Show the message at an offset of a queue."""
    with boundary():
        from bolide.client import MessageQueue

        found = call(namesrv, lambda admin: admin.message_at(MessageQueue(topic, broker, queue_id), offset))
        if found is None:
            output.fail(f"no message is stored at offset {offset} of {topic}@{broker}:{queue_id}")
        show(found, as_json)


@app.command()
def find(
    topic: str = typer.Argument(..., help="Topic.", autocompletion=completions.topics),
    key: str = typer.Argument(..., help="Key."),
    count: int = typer.Option(
        32, "--count", "-c", min=1, max=MAX_FOUND, help="Maximum number of messages of each broker."
    ),
    namesrv: str = Namesrv,
    as_json: bool = JsonFlag,
) -> None:
    """List the messages with a key."""
    with boundary():
        from bolide.admin.messages import messages_and_more

        found, more = call(namesrv, lambda admin: messages_and_more(admin, topic, key, max_messages=count))
        if as_json:
            listed = [message_fields(message) for message in found]
            output.print_json({"messages": listed, "limit": count, "limit_reached": more})
            return
        rows = [
            (
                message.message_id,
                f"{message.broker_name}:{message.queue_id}",
                message.queue_offset,
                message.tags,
                output.moment(message.store_timestamp),
                len(message.body),
            )
            for message in found
        ]
        output.table(
            f"{topic} with key {key}", ("Message id", "Queue", "Offset", "Tags", "Stored", "Bytes"), rows, False
        )
        if more:
            output.note(f"a broker returned {count} messages, as many as it may, so there may be more: {_MORE}")


@app.command()
def trace(
    message_id: str = typer.Argument(..., help="The producer's message id."),
    trace_topic: str = typer.Option(
        TRACE_TOPIC, help="Where the clients write their trace.", autocompletion=completions.topics
    ),
    begin: str = typer.Option("", help=f"Only steps recorded at or after this time: {FORMS}."),
    end: str = typer.Option("", help="Only steps recorded before this time."),
    count: int = typer.Option(
        MAX_FOUND, "--count", "-c", min=1, max=MAX_FOUND, help="Maximum number of trace messages of each broker."
    ),
    namesrv: str = Namesrv,
    as_json: bool = JsonFlag,
) -> None:
    """Show when a message was sent and stored, and each attempt of each group to consume it. Clients record this if
    they trace."""
    with boundary():
        from bolide.admin.tracing import found_trace
        from bolide.client.messages.errors import TopicNotFound

        first = moment_of("--begin", begin) if begin else 0
        last = moment_of("--end", end) if end else None
        try:
            found = call(
                namesrv,
                lambda admin: found_trace(
                    admin, message_id, topic=trace_topic, max_messages=count, begin=first, end=last
                ),
            )
        except TopicNotFound:
            output.fail(
                f"nothing is traced here: there is no topic {trace_topic}; set traceTopicEnable=true at the broker and"
                " trace at clients, or name another --trace-topic"
            )
        if not found.steps and not as_json:
            damaged = f"; {found.unreadable} trace messages cannot be read" if found.unreadable else ""
            output.fail(
                f"no step of message {message_id} is recorded in {trace_topic}: clients with trace=True send their"
                f" records within 5 s{damaged}"
            )
        show_trace(message_id, trace_topic, found, count, as_json)
        if not found.steps:
            raise typer.Exit(output.FAILED)


def show_trace(message_id: str, trace_topic: str, found: FoundTrace, count: int, as_json: bool) -> None:
    """Print the steps of a message, and notes if some may be missing."""
    columns = ("Step", "Group", "Retries", "Started", "ms", "Status", "Client", "Broker")
    rows = [
        (
            step.kind,
            step.group,
            step.retries,
            output.moment(step.begin),
            step.cost_ms,
            step.status,
            step.client,
            step.broker,
        )
        for step in found.steps
    ]
    if as_json:
        output.print_json(
            {
                "message_id": message_id,
                "trace_topic": trace_topic,
                "steps": output.json_rows(columns, rows),
                "limit": count,
                "limit_reached": found.limit_reached,
                "unreadable": found.unreadable,
            }
        )
        return
    output.table(f"Trace of {message_id}", columns, rows, False)
    if found.limit_reached:
        output.note(
            f"a broker returned {count} trace messages, as many as it may, so there may be more steps: select a time"
            " with --begin and --end"
        )
    if found.unreadable:
        output.note(f"{found.unreadable} trace messages with this id cannot be read")


@app.command()
def recall(
    topic: str = typer.Argument(..., help="Topic.", autocompletion=completions.topics),
    handle: str = typer.Argument(..., help="The recall handle that `bolide produce --json` printed."),
    namesrv: str = Namesrv,
) -> None:
    """Recall a delayed message that is still waiting; the broker needs recallMessageEnable=true."""
    with boundary():
        message_id = asyncio.run(take_back(namesrv, topic, handle))
        output.note(f"{message_id} will not be delivered")


async def take_back(namesrv: str, topic: str, handle: str) -> str:
    """Recall a message and return its id."""
    from bolide.client import Producer

    async with Producer("bolide-cli-producer", namesrv) as producer:
        return await producer.recall(topic, handle)


def show(message: Any, as_json: bool) -> None:
    """Print all fields of a message."""
    fields = message_fields(message, unreadable=True)
    if not as_json:
        body, properties = fields.pop("body"), fields.pop("properties")
        fields["keys"] = " ".join(fields["keys"])
        fields["born_timestamp"] = output.moment(message.born_timestamp)
        fields["store_timestamp"] = output.moment(message.store_timestamp)
        fields["born_host"], fields["store_host"] = message.born_host, message.store_host
        fields |= {f"property {name}": value for name, value in properties.items()}
        fields["body"] = body
    output.pairs(f"Message {message.message_id}", fields, as_json)
