"""Received messages as objects: what a copy has."""

from __future__ import annotations

from copy import copy

from tests.client.messages.received import a_message


def test_a_copy_is_another_message_of_the_same_record() -> None:
    message = a_message()
    message.topic, message.reconsume_times = "origin", 3
    copied = copy(message)
    assert copied is not message
    assert copied.record is message.record
    assert (copied.topic, copied.reconsume_times, copied.body) == ("origin", 3, b"body")
    copied.topic = "another"
    assert message.topic == "origin"
