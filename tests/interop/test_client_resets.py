"""Resets told to Java's clients (useServerSideResetOffset=false): they go back and get everything once more."""

from functools import partial
from pathlib import Path

import pytest

from proof.interop.java_artefacts import CLIENT_VERSIONS
from proof.interop.java_processes import JavaClient, wait_registered
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.waiting import wait_until
from proof.kit.wire import SEND_MESSAGE_V2, SUCCESS, Wire, send_ext

pytestmark = pytest.mark.java

QUERY_CONSUMER_OFFSET = 14
RESET = 222
QUEUES = 4
COUNT = 12


def consumed(wire: Wire, group: str) -> int:
    """How far the group's committed offsets have come, over all queues; -1 where one has none."""
    found = 0
    for queue_id in range(QUEUES):
        ext = {"consumerGroup": group, "topic": "T", "queueId": str(queue_id), "setZeroIfNotFound": "false"}
        answer = wire.ask(QUERY_CONSUMER_OFFSET, ext)
        if answer.code != SUCCESS:
            return -1
        found += int(answer.ext["offset"])
    return found


def has_all(wire: Wire, group: str) -> bool:
    return consumed(wire, group) == COUNT


def test_java_clients_go_back_when_they_are_told(tmp_path: Path) -> None:
    namesrv = OurNameServer(tmp_path / "namesrv")
    settings = {"useServerSideResetOffset": "false", "flushDiskType": "ASYNC_FLUSH"}
    broker = OurBroker(tmp_path / "broker", namesrv.address, settings)
    wait_registered(namesrv.address)
    clients = {version: JavaClient(tmp_path / version, namesrv.address, version) for version in CLIENT_VERSIONS}
    with Wire(broker.port) as wire:
        for number in range(COUNT):
            assert wire.ask(SEND_MESSAGE_V2, send_ext("T", e=str(number % QUEUES)), b"x").code == SUCCESS
        for version, client in clients.items():
            group = f"G{version[0]}"
            client.call("consume", group=group, topic="T")
            assert len(client.call("await", group=group, count=COUNT)) == COUNT
            wait_until(partial(has_all, wire, group), f"{group} commits all")
        for version in clients:
            ext = {"topic": "T", "group": f"G{version[0]}", "timestamp": "0", "isForce": "true"}
            answer = wire.ask(RESET, ext)
            assert (answer.code, answer.body.count(b'"queueId"')) == (SUCCESS, QUEUES), answer
        for version, client in clients.items():
            # A Java client waits ten seconds before it goes back.
            again = client.call("await", group=f"G{version[0]}", count=2 * COUNT, seconds=120)
            assert len(again) == 2 * COUNT
            client.close()
    assert broker.stop() == 0, broker.output()
    assert namesrv.stop() == 0, namesrv.output()
