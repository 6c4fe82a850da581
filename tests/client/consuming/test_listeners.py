"""Which listener gets a message, also when its topic has none."""

from __future__ import annotations

from librt.strings import BytesWriter

from bolide.client import ReceivedMessage
from bolide.client.consuming.listeners import Listeners
from bolide.client.messages.listener import BROKER_CHOOSES, ListenerCall
from bolide.layout.record import decode_record
from bolide.world.real import THE_WORLD
from tests.layout.records import put_record


def a_retry() -> ReceivedMessage:
    w = BytesWriter()
    put_record(w, "%RETRY%G", b"body", b"")
    return ReceivedMessage(decode_record(w.getvalue(), 0), "b")


async def test_a_message_fails_while_there_is_no_listener() -> None:
    listeners, message = Listeners(""), a_retry()
    with THE_WORLD.pool(1, "none") as threads:
        assert await listeners.of(message).run([message], threads) == [(message, BROKER_CHOOSES)]
    assert listeners.of_all([message]) is listeners.of(message)


def test_a_listener_that_took_the_place_of_another_is_not_removed() -> None:
    listeners = Listeners("")
    first, second = ListenerCall(lambda message: None), ListenerCall(lambda message: None)
    listeners.add("T", first)
    listeners.add("T", second)
    listeners.remove("T", first)
    assert listeners.get("T") is second
    listeners.remove("T", second)
    assert listeners.get("T") is None
