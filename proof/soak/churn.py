"""The process of the churn: topics, groups, clients and connections come and go, offsets are reset, operators look.

python -m proof.soak.churn NAMESRV FOLDER --rate R
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from itertools import count

from bolide.admin.client import Admin
from bolide.client import BolideError, Message, Producer, PushConsumer, ReceivedMessage, sql
from proof.kit.journal import Journal
from proof.soak.client_process import Arguments, Told, now_ms, pause, run_client
from proof.soak.events import Event, What
from proof.soak.streams import PREFIX, READERS, Stream, body_of, read_body

VISIT_MESSAGES = 5
FILTERS = 20
"""Different expressions: a broker remembers the last thousand, which would look like growth for hours."""
VISIT_S = 60.0
"""How long a visitor waits for its messages: long, for a slow machine is no fault."""
BACK_MS = 20_000
"""Offsets are reset to this long ago."""
RAW = 4
TIMEOUT_S = 20.0


class Churn:
    """Everything that comes and goes."""

    def __init__(self, given: Arguments, admin: Admin, journal: Journal, told: Told) -> None:
        self._given = given
        self._admin = admin
        self._journal = journal
        self._told = told
        self._visits = count()
        self._members = count()

    async def visit(self) -> None:
        """A topic and a group of their own, two new clients, some messages by a filter; then all of it is deleted."""
        number = next(self._visits)
        topic, group = f"{PREFIX}visit-{number}", f"{PREFIX}visitor-{number}"
        created = number % 3 != 0  # else the first send creates the topic, and the first pull the group
        if created:
            await self._admin.create_topic(topic, queues=2)
            await self._admin.create_group(group)
        name = f"visit-{number}"
        came: set[int] = set()
        wanted = set(range(VISIT_MESSAGES))
        done = asyncio.Event()

        async def take(message: ReceivedMessage) -> None:
            told = read_body(message.body)
            if told is not None:
                came.add(told.number)
            if came == wanted:
                done.set()

        async with Producer(f"{group}-sender", self._given.namesrv, timeout=TIMEOUT_S, instance_name=name) as producer:
            for each in sorted(wanted):
                body = body_of(Stream.PLAIN, each, now_ms(), 0)
                properties = {"n": str(number % FILTERS)}
                await producer.send(Message(topic, body, properties=properties, keys=f"visit-{number}"))
            consumer = PushConsumer(group, self._given.namesrv, start_from="first", instance_name=name)
            consumer.subscribe(topic, sql(f"n = {number % FILTERS}") if number % 2 else "*", take)
            async with consumer:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(VISIT_S):
                        await done.wait()
        if not done.is_set():
            self._told.counts["failed visits"] += 1
            self._told.last_error = f"of {topic} only {sorted(came)} came within {VISIT_S:.0f} s"
        await self._admin.delete_group(group, remove_offset=True)
        await self._admin.delete_topic(topic)
        for prefix in ("%RETRY%", "%DLQ%"):
            if prefix + group in await self._admin.topics(system=True):
                await self._admin.delete_topic(prefix + group)
        self._told.counts["visits"] += 1

    async def member(self) -> None:
        """One more member of the group that reads the plain topic joins, takes its share, and leaves."""
        reader = READERS[0]

        async def take(message: ReceivedMessage) -> None:
            told = read_body(message.body)
            if told is not None:
                late = now_ms() - told.due_ms
                self._journal.note(*Event(What.CONSUMED, told.stream, told.number, reader, late).fields)

        consumer = PushConsumer(
            PREFIX + reader.name, self._given.namesrv, start_from="first", instance_name=f"guest-{next(self._members)}"
        )
        consumer.subscribe(reader.stream.topic, "*", take)
        async with consumer:
            await pause(1.0 if self._given.quick else 8.0, self._told)
        self._told.counts["guests"] += 1

    async def reset(self) -> None:
        """A running group is sent back by some seconds."""
        await self._admin.reset_offset(f"{PREFIX}reset", Stream.PLAIN.topic, max(now_ms() - BACK_MS, 1))
        self._told.counts["resets"] += 1

    async def look(self) -> None:
        """What operators and their tools ask."""
        admin = self._admin
        await admin.messages_by_key(Stream.PLAIN.topic, "plain-1")
        await admin.consumer_progress(f"{PREFIX}plain")
        connected = await admin.consumer_connections(f"{PREFIX}plain")
        for connection in list(connected.connection_set if connected is not None else [])[:1]:
            await admin.consumer_running_info(f"{PREFIX}plain", connection.client_id)
        await admin.topic_stats(Stream.PLAIN.topic)
        await admin.topic_groups(Stream.PLAIN.topic)
        await admin.brokers()
        await admin.put_kv("soak", "looked", str(now_ms()))
        self._told.counts["looks"] += 1

    async def knock(self) -> None:
        """Connections without a client: closed at once, after half a frame, and after nonsense."""
        host, port = (await self._admin.brokers(runtime=False))[0].address.rsplit(":", 1)
        for data in (b"", b"\x00\x00\x01\x00\x00\x00\x00\x80{", b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n")[:RAW]:
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(data)
            with contextlib.suppress(OSError):
                await writer.drain()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        self._told.counts["knocks"] += 1


async def repeat(what: Callable[[], Awaitable[None]], every: float, told: Told) -> None:
    """Do something again and again, until told to stop."""
    while await pause(every, told):
        try:
            await what()
        except (BolideError, OSError) as error:
            told.failed(what.__name__, error)


async def churn(given: Arguments, told: Told) -> None:
    """Come and go until told to stop."""
    journal = Journal(given.folder / "churn.journal")
    async with Admin(given.namesrv, timeout=TIMEOUT_S, instance_name="churn") as admin:
        come = Churn(given, admin, journal, told)
        pace = 0.1 if given.quick else 1.0
        await asyncio.gather(
            repeat(come.visit, 5 * pace, told),
            repeat(come.member, 20 * pace, told),
            repeat(come.reset, 30 * pace, told),
            repeat(come.look, 10 * pace, told),
            repeat(come.knock, 10 * pace, told),
        )
    told.counts["done"] = 1
    await told.leave.wait()
    journal.close()


if __name__ == "__main__":
    run_client(__doc__ or "", churn)
