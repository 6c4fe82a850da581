"""What the record of a half message says."""

from __future__ import annotations

import pytest

from bolide.broker.transactions.half_records import check_times, is_same_message, misplaced, real_place
from bolide.layout.message_properties import MessageProperties
from bolide.layout.record import Record
from tests.broker.parts import text
from tests.layout.records import record_of


def record(body: bytes = b"x", **properties: str) -> Record:
    return record_of("T", body, text(**properties).encode(), born_timestamp=7)


@pytest.mark.parametrize(
    ("properties", "place"),
    [
        ({"REAL_TOPIC": "T", "REAL_QID": "3"}, ("T", 3)),
        ({"REAL_TOPIC": "T"}, ("T", 0)),
        ({"REAL_TOPIC": "%RETRY%g", "REAL_QID": "0"}, ("%RETRY%g", 0)),
        ({"REAL_TOPIC": "BenchmarkTest", "REAL_QID": "1023"}, ("BenchmarkTest", 1023)),
        ({"REAL_TOPIC": "T", "REAL_QID": "65535"}, ("T", 65535)),
        ({"REAL_TOPIC": "T", "REAL_QID": "65536"}, None),
        ({"REAL_TOPIC": "T", "REAL_QID": "-1"}, None),
        ({"REAL_TOPIC": "T", "REAL_QID": "one"}, None),
        ({"REAL_QID": "0"}, None),
        ({"REAL_TOPIC": "../T", "REAL_QID": "0"}, None),
        ({"REAL_TOPIC": "RMQ_SYS_TRANS_OP_HALF_TOPIC", "REAL_QID": "0"}, None),
        ({"REAL_TOPIC": "rmq_sys_wheel_timer", "REAL_QID": "0"}, None),
    ],
)
def test_where_the_message_is_for(properties: dict[str, str], place: tuple[str, int] | None) -> None:
    assert real_place(MessageProperties("", properties)) == place


def test_what_is_said_of_a_place_is_short_and_printable() -> None:
    said = misplaced(MessageProperties("", {"REAL_TOPIC": "nul\x00" * 1000, "REAL_QID": "9" * 1000}))
    assert said.isprintable() and len(said) < 700


@pytest.mark.parametrize(("times", "asked"), [("3", 3), ("-3", 0), ("soon", 0), ("9" * 500, 0), ("", 0)])
def test_how_often_it_was_asked_about(times: str, asked: int) -> None:
    assert check_times(record(TRANSACTION_CHECK_TIMES=times)) == asked


def test_whose_copy_it_is() -> None:
    half = record(UNIQ_KEY="U", REAL_TOPIC="T")
    assert is_same_message(half, record(UNIQ_KEY="U", TRANSACTION_CHECK_TIMES="1"))
    assert not is_same_message(half, record(UNIQ_KEY="V"))
    assert not is_same_message(half, record(b"y", UNIQ_KEY="U"))
