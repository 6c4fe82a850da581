"""`bolide message`: find and show single messages, and recall a delayed one."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.admin_call import call
from bolide.cli.contexts.options import Namesrv
from bolide.cli.messages.consume import message_fields
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary

app = typer.Typer()
_MOST: Final = 64
_MORE: Final = f"set --count up to {_MOST}, or search a time in the console"


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
    count: int = typer.Option(32, "--count", "-c", min=1, max=_MOST, help="Maximum number of messages of each broker."),
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
    fields = message_fields(message)
    if not as_json:
        body, properties = fields.pop("body"), fields.pop("properties")
        fields["keys"] = " ".join(fields["keys"])
        fields["born_timestamp"] = output.moment(message.born_timestamp)
        fields["store_timestamp"] = output.moment(message.store_timestamp)
        fields["born_host"], fields["store_host"] = message.born_host, message.store_host
        fields |= {f"property {name}": value for name, value in properties.items()}
        fields["body"] = body
    output.pairs(f"Message {message.message_id}", fields, as_json)
