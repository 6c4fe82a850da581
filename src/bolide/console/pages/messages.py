"""Messages: search by id, key, time or offset; show the body and trace of a message; send and resend messages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from bolide.admin.dead_letters import copy_of
from bolide.admin.messages import messages_and_more
from bolide.admin.newest import MOST_SKIPPED, Older
from bolide.admin.tracing import FoundTrace, found_trace
from bolide.client import Message
from bolide.client.messages.errors import TopicNotFound
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage
from bolide.console.body_text import DECODED, FORMS, body_text, preview
from bolide.console.errors import PageRefused
from bolide.console.render import link
from bolide.console.trace_picture import Picture, picture
from bolide.console.visit import Page, Visit, missing
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.limits import MAX_FOUND
from bolide.layout.names import TRACE_TOPIC

WAYS: Final = ("time", "key", "id", "place")
_ID: Final = re.compile(r"[0-9A-Fa-f]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message as a row of a list."""

    message: ReceivedMessage
    preview: str


def rows_of(messages: Sequence[ReceivedMessage]) -> list[MessageRow]:
    """Return the list rows of messages."""
    return [MessageRow(message, preview(message)) for message in messages]


async def messages(visit: Visit) -> Response:
    """Show the newest messages of a topic, or the messages with a key, an id or an offset."""
    query, topic = visit.query, visit.query.text("topic")
    way = query.chosen("by", WAYS, "time")
    found: list[ReceivedMessage] = []
    older: Older | None = None
    more = False
    if topic:
        if way == "time":
            begin, end = query.moment("begin") or 0, query.moment("end")
            found, older = await visit.view.newest(topic, begin, end, query.number("skip", 0, most=MOST_SKIPPED))
        elif way == "key" and query.text("key"):
            begin, end = query.moment("begin") or 0, query.moment("end")
            found, more = await messages_and_more(
                visit.view.admin, topic, query.text("key"), max_messages=MAX_FOUND, begin=begin, end=end
            )
        elif way == "id" and query.text("id"):
            one = await visit.view.admin.message(query.text("id"), topic) if _ID.fullmatch(query.text("id")) else None
            found = [] if one is None else [one]
        elif way == "place" and query.text("broker"):
            queue = MessageQueue(topic, query.text("broker"), query.number("queue", 0, most=65_535))
            found = await visit.view.admin.messages_at(queue, query.number("offset", 0))
    names_of_topics = sorted(await visit.view.topic_configs()) if not topic else []
    return visit.page(
        "messages.html",
        topic=topic,
        way=way,
        rows=rows_of(found),
        older=older,
        most=MAX_FOUND if more else 0,
        topics=names_of_topics[:2_000],
        asked=bool(topic) and (way == "time" or bool(query.text({"key": "key", "id": "id", "place": "broker"}[way]))),
        values={name: query.text(name) for name in ("key", "id", "broker", "queue", "offset", "begin", "end")},
    )


async def message(visit: Visit) -> Response:
    """Show a message, its body and its trace."""
    found = await _stored(visit, visit.query.text("id"), visit.query.text("topic"))
    trace, untold = await _trace(visit, found)
    form, schema = visit.query.text("view"), visit.schemas.of(found)
    drawn: Picture | None = picture(trace.steps)
    groups: list[str] = []
    try:
        groups = await visit.view.cached.get(
            ("groups of", found.record.topic), lambda: visit.view.admin.topic_groups(found.record.topic)
        )
    except BolideError:
        groups = []
    own = {name: value for name, value in found.properties.items() if name not in names.RESERVED}
    system = {name: value for name, value in found.properties.items() if name in names.RESERVED}
    return visit.page(
        "message.html",
        message=found,
        body=await asyncio.to_thread(body_text, found, form, schema),  # it may call a registry
        forms=FORMS if schema is None else (DECODED, *FORMS),
        own=sorted(own.items()),
        system=sorted(system.items()),
        picture=drawn,
        untold=untold,
        trace=trace,
        most_traced=MAX_FOUND,
        groups=groups,
    )


async def _stored(visit: Visit, message_id: str, topic: str) -> ReceivedMessage:
    if not _ID.fullmatch(message_id):
        raise missing("message with this id")
    found = await visit.view.admin.message(message_id, topic or None)
    if found is None:
        raise missing(f"message {message_id}: it may have expired")
    return found


async def _trace(visit: Visit, found: ReceivedMessage) -> tuple[FoundTrace, str]:
    try:
        return await found_trace(visit.view.admin, found.message_id), ""
    except TopicNotFound:  # the first client that traces creates it
        return FoundTrace(), ""
    except BolideError as error:
        return FoundTrace(), f"the trace topic {TRACE_TOPIC} cannot be read: {error}"


async def send_again(visit: Visit) -> Response:
    """Send a copy of a stored message to a topic."""
    found = await _stored(visit, visit.form.text("id"), visit.form.text("topic"))
    topic = visit.form.needed("to", "the topic to send to")
    producer = await visit.view.producer()
    result = await producer.send(copy_of(found, topic))
    return visit.done(f"resent to {result.queue} as {result.message_id}", _page_of(topic, result.message_id))


async def consume(visit: Visit) -> Response:
    """Ask a member of a group to consume a message immediately, and show the result."""
    found = await _stored(visit, visit.form.text("id"), visit.form.text("topic"))
    group = visit.form.needed("group", "the name of the group")
    members = await visit.view.admin.consumer_connections(group)
    clients = [connection.client_id for connection in members.connection_set] if members is not None else []
    wanted = visit.form.text("client")
    if not clients or (wanted and wanted not in clients):
        raise PageRefused(f"no such member of {group} is connected now", 409)
    client = wanted or clients[0]
    done = await visit.view.admin.consume_directly(group, client, found)
    what = done.consume_result.value if done.consume_result is not None else "no result"
    text = f"{client} returned {what} after {done.spent_time_mills} ms"
    return visit.done(
        text + (f": {done.remark[:300]}" if done.remark else ""), _page_of(found.record.topic, found.offset_message_id)
    )


def _page_of(topic: str, message_id: str) -> str:
    return link("/messages/show", topic=topic, id=message_id)


async def write(visit: Visit) -> Response:
    """Show the form for a new message."""
    topics = sorted(await visit.view.topic_configs())[:2_000]
    return visit.page("send.html", topic=visit.query.text("topic"), topics=topics)


async def send(visit: Visit) -> Response:
    """Send a new message."""
    form = visit.form
    topic, body = form.needed("topic", "the topic"), form.raw("body")
    properties = {}
    for line in form.raw("properties").splitlines():
        name, equals, value = line.partition("=")
        if line.strip():
            if not equals or not name.strip():
                raise PageRefused(f"the property {line[:60]!r} is not name=value")
            properties[name.strip()] = value.strip()
    if not body:
        raise PageRefused("the body is empty: RocketMQ rejects empty messages")
    delay = form.number("delay", 0, most=3 * 86_400)
    if not await visit.view.exists(topic):
        raise missing(f"topic {topic}")
    wanted = Message(
        topic,
        body.encode(),
        tags=form.text("tags"),
        keys=form.text("keys"),
        properties=properties,
        sharding_key=form.text("sharding_key"),
        delay=delay,
    )
    result = await (await visit.view.producer()).send(wanted)
    later = f"; it will be delivered in {delay:,} s" if delay else ""
    path = link("/topics/show", topic=topic) if delay else _page_of(topic, result.message_id)
    return visit.done(f"sent to {result.queue} as {result.message_id}{later}", path)


PAGES: Final[Sequence[Page]] = (
    Page("/messages", messages),
    Page("/messages/show", message),
    Page("/messages/again", send_again, change=True),
    Page("/messages/consume", consume, change=True),
    Page("/messages/write", write),
    Page("/messages/send", send, change=True),
)
