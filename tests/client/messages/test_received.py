"""Received messages as objects: what a copy has."""

from __future__ import annotations

import pickle
from copy import copy

from bolide.client.messages.codec import JsonCodec
from bolide.client.messages.received import RECORD_FIELDS
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


def test_a_pickled_message_is_equal_in_another_process() -> None:
    message = a_message()
    message.topic, message.reconsume_times, message.codec = "origin", 3, JsonCodec(int)
    restored = pickle.loads(pickle.dumps(message))
    assert (restored.topic, restored.reconsume_times, restored.broker_name) == ("origin", 3, message.broker_name)
    assert restored.codec.kind is int
    assert restored.queue == message.queue
    assert restored.properties == message.properties
    assert {name: getattr(restored.record, name) for name in RECORD_FIELDS} == {
        name: getattr(message.record, name) for name in RECORD_FIELDS
    }


def test_a_pickled_message_has_each_field_of_its_record() -> None:
    record = a_message().record
    assert (getattr(record, "__mypyc_attrs__", None) or tuple(vars(record))) == RECORD_FIELDS
