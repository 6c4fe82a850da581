"""Bodies that the console decodes by a schema, and the schemas that are refused."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fastavro import schemaless_writer

from bolide.bodies.decoding import decoder_of_file
from bolide.client import DEAD_LETTER, Message, MessageQueue, ReceivedMessage, RetryLater, TopicNotFound
from bolide.console.body_text import MOST
from bolide.console.render import link
from bolide.console.topic_schemas import TopicSchemas
from bolide.errors import ConfigError
from bolide.layout.names import DLQ_PREFIX
from bolide.testing.broker import Broker
from proof.kit.waiting import PATIENCE
from tests.client.patient import Admin, PushConsumer
from tests.console.browsing import Browser, browsing, send, text_of

"""Seconds."""
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": "bytes"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "items", "type": {"type": "array", "items": "string"}},
    ],
}
SHOWN = {
    "id": 7,
    "price": "12.50",
    "at": "2026-01-02T03:04:05+00:00",
    "raw": "00 ff",
    "note": "<b>",
    "items": ["a", "ü"],
}


def order() -> bytes:
    out = io.BytesIO()
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    datum = {"id": 7, "price": Decimal("12.50"), "at": at, "raw": b"\0\xff", "note": "<b>", "items": ["a", "ü"]}
    schemaless_writer(out, ORDER, datum)
    return out.getvalue()


def schemas(folder: Path, **of: Any) -> TopicSchemas:
    for topic, schema in of.items():
        (folder / f"{topic}.avsc").write_text(json.dumps(schema))
    return TopicSchemas.read(folder)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders", queues=1)
        running.create_topic("plain", queues=1)
        yield running


@pytest.fixture
def browser(broker: Broker, tmp_path: Path) -> Iterator[Browser]:
    with browsing(broker, schemas=schemas(tmp_path, orders=ORDER, hopeless=ORDER)) as browser:
        yield browser


def shown(browser: Browser, broker: Broker, topic: str, body: bytes, view: str = "") -> str:
    (result,) = send(broker, Message(topic, body))
    return browser.get(f"/messages/show?topic={topic}&id={result.message_id}&view={view}")


def test_a_body_is_shown_by_its_topics_schema(broker: Broker, browser: Browser) -> None:
    page = shown(browser, broker, "orders", order())
    assert " ".join(json.dumps(SHOWN, indent=2, ensure_ascii=False).split()) in text_of(page)
    assert ">Decoded</a>" in page and "<b>" not in page
    assert "12.50" not in shown(browser, broker, "orders", order(), "hex")
    assert ">Decoded</a>" not in shown(browser, broker, "plain", order(), "decoded")


def test_undecodable_body_is_shown_as_text_with_the_reason(broker: Broker, browser: Browser) -> None:
    for body, reason in (
        (b"no datum", "it does not match its schema ("),
        (order() + b"xx", "2 bytes are left after its datum: shown as text"),
        (b"y" * (MOST + 1), "65,537 bytes are too long to be decoded here: shown as text"),
    ):
        assert reason in text_of(shown(browser, broker, "orders", body))


def test_dead_letters_have_the_schema_of_their_topic(broker: Broker, browser: Browser) -> None:
    async def give_up() -> str:
        consumer = PushConsumer("hopeless", broker.namesrv_addr, start_from="first")

        async def refuse(message: ReceivedMessage) -> None:
            raise RetryLater(DEAD_LETTER)

        consumer.subscribe("hopeless", "*", refuse)
        topic = DLQ_PREFIX + "hopeless"
        async with consumer, Admin(broker.namesrv_addr) as admin:
            while not (found := await dead(admin, topic)):
                await asyncio.sleep(0.01)
        return link("/messages/show", topic=topic, id=found[0].offset_message_id)

    async def dead(admin: Admin, topic: str) -> list[ReceivedMessage]:
        try:
            return await admin.messages_at(MessageQueue(topic, "broker-a", 0), 0)
        except TopicNotFound:
            return []

    send(broker, Message("hopeless", order()))
    path = asyncio.run(asyncio.wait_for(give_up(), PATIENCE))
    assert '"price": "12.50"' in text_of(browser.get(path))


NESTED = {"type": "record", "name": "Tree", "fields": [{"name": "of", "type": ["null", "Tree"]}]}
THROUGH = {
    "type": "record",
    "name": "A",
    "fields": [
        {"name": "b", "type": {"type": "record", "name": "B", "fields": [{"name": "a", "type": ["null", "A"]}]}}
    ],
}
EMPTY = {"type": "record", "name": "E", "fields": [{"name": "nothing", "type": "null"}]}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (NESTED, "Tree contains itself"),
        (THROUGH, "A contains itself"),
        ({"type": "array", "items": "null"}, "items of no bytes"),
        ({"type": "array", "items": EMPTY}, "items of no bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, "items of no bytes"),
        ({"type": "record", "name": "X", "fields": [{"name": "a", "type": "nope"}]}, "it is not an Avro schema"),
        ("nonsense", "it is not an Avro schema"),
    ],
)
def test_a_schema_that_a_body_could_turn_against_the_console(tmp_path: Path, schema: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        schemas(tmp_path, orders=schema)
    assert "orders.avsc" in str(refused.value)


def test_a_name_that_is_used_twice_is_no_cycle(tmp_path: Path) -> None:
    inner = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}
    both = {"type": "record", "name": "L", "fields": [{"name": "a", "type": inner}, {"name": "b", "type": "P"}]}
    schemas(tmp_path, both=both, maps={"type": "map", "values": "null"})
    assert decoder_of_file(tmp_path / "both.avsc")(b"\x02\x04") == {"a": {"x": 1}, "b": {"x": 2}}


def test_a_folder_without_a_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no file TOPIC\.avsc or TOPIC\.desc"):
        TopicSchemas.read(tmp_path)
