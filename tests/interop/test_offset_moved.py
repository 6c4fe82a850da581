"""The event of a corrected pull is the one that a Java broker 4.9.7 stores."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proof.interop.java_artefacts import OLD_BROKER_VERSION
from proof.interop.java_processes import JavaBroker
from proof.kit.our_processes import OurBroker
from proof.kit.waiting import wait_until
from proof.kit.wire import PULL_MESSAGE, SEND_MESSAGE_V2, SUCCESS, Wire, pull_ext, send_ext
from proof.reader.records import read_records

pytestmark = pytest.mark.java

PULL_OFFSET_MOVED = 21
EVENTS = "OFFSET_MOVED_EVENT"


def event_of(port: int) -> Any:
    """What a broker stores when a pull asks for an offset far behind the end, as far as two brokers can agree."""
    with Wire(port) as wire:
        assert wire.ask(SEND_MESSAGE_V2, send_ext("T"), b"one").code == SUCCESS

        def answer_to(topic: str, offset: int) -> Callable[[], bool]:
            return lambda: wire.ask(PULL_MESSAGE, pull_ext(topic, 0, offset)).code == SUCCESS

        wait_until(answer_to("T", 0), "the message can be pulled")
        moved = wire.ask(PULL_MESSAGE, pull_ext("T", 0, 40))
        assert (moved.code, moved.ext["nextBeginOffset"]) == (PULL_OFFSET_MOVED, "1")
        wait_until(answer_to(EVENTS, 0), "the event can be pulled")
        (event,) = read_records(wire.ask(PULL_MESSAGE, pull_ext(EVENTS, 0, 0)).body)
        return json.loads(event.body), event.properties, event.queue_id, event.sys_flag, event.reconsume_times


def test_the_event_is_that_of_4_9(tmp_path: Path) -> None:
    ours = OurBroker(tmp_path / "ours", "", {"flushDiskType": "ASYNC_FLUSH"})
    found = event_of(ours.port)
    assert ours.stop() == 0, ours.output()
    java = JavaBroker(tmp_path / "java", "", version=OLD_BROKER_VERSION)
    assert found == event_of(java.port)
    java.kill()  # nobody reads the store: a good end takes long
