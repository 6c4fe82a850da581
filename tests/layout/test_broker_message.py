"""What a message says of its hosts and its topic."""

from __future__ import annotations

import pytest

from bolide.layout.broker_message import topic_fits
from tests.layout.records import message_of


@pytest.mark.parametrize(("born", "store", "bits"), [(8, 8, 0), (20, 8, 0x10), (8, 20, 0x20), (20, 20, 0x30)], ids=str)
def test_the_bits_follow_the_hosts(born: int, store: int, bits: int) -> None:
    for given in (0x41, 0x71):
        message = message_of("T", sys_flag=given, born_host=bytes(born), store_host=bytes(store))
        message.mark_hosts()
        assert message.sys_flag == 0x41 | bits


def test_a_record_holds_a_topic_of_127_bytes() -> None:
    assert topic_fits("T", 1) and topic_fits("T" * 127, 127) and topic_fits("%RETRY%" + "g" * 200, 207)
    assert not topic_fits("", 0) and not topic_fits("T" * 128, 128) and not topic_fits("%DLQ%" + "g" * 123, 128)
