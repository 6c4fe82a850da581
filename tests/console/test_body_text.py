"""Bodies as people read them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bolide.client import Message
from bolide.client.messages.received import ReceivedMessage
from bolide.console.body_text import MOST, body_text, hex_lines, preview
from bolide.testing.broker import Broker
from tests.client.patient import Admin
from tests.console.browsing import send


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("bodies", queues=1)
        yield running


def stored(broker: Broker, body: bytes) -> ReceivedMessage:
    """A body as it comes back."""
    (result,) = send(broker, Message("bodies", body))

    async def main() -> ReceivedMessage:
        async with Admin(broker.namesrv_addr) as admin:
            found = await admin.message_at(result.queue, result.queue_offset)
            assert found is not None
            return found

    return asyncio.run(main())


def test_the_form_that_fits(broker: Broker) -> None:
    for body, form, text in (
        (b'{"a":[1]}', "json", '{\n  "a": [\n    1\n  ]\n}'),
        ("zwölf\n\x1b[31m".encode(), "text", "zwölf\n\\x1b[31m"),
        (b"{ not json", "text", "{ not json"),
        (b"[" * 20_000, "text", "[" * 20_000),
        (b"\xff\x00", "hex", hex_lines(b"\xff\x00")),
    ):
        told = body_text(stored(broker, body), "")
        assert (told.form, told.text, told.size, told.note) == (form, text, len(body), "")
    told = body_text(stored(broker, b"no"), "json")
    assert (told.form, told.text, told.note) == ("json", "no", "this is not JSON: shown as text")


def test_a_long_body_is_cut_and_says_so(broker: Broker) -> None:
    told = body_text(stored(broker, b"x" * (MOST + 1)), "text")
    assert (len(told.text), told.note) == (MOST, "the first 65,536 bytes of 65,537")


def test_hexadecimal_lines() -> None:
    assert hex_lines(b"0123456789abcdef\x00") == (
        "00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef\n"
        "00000010  00                                               ."
    )


def test_a_preview_is_one_short_line(broker: Broker) -> None:
    assert preview(stored(broker, b"a\n  b\x07")) == "a b\\x07"
    assert preview(stored(broker, "ö".encode() * 500)) == "ö" * 120 + "…"
    assert preview(stored(broker, b"\xff\xfe" * 100)).startswith("ff fe")
