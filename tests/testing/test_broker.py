"""The in-process broker: serves, keeps its store when told to, leaves nothing behind otherwise."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from bolide.errors import LocalError
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.testing import Broker
from bolide.transport.client import ClientConnection
from proof.kit.waiting import PATIENCE


def ask(address: str, command: Command) -> Command:
    async def one() -> Command:
        client = await ClientConnection.connect(address, PATIENCE)
        try:
            return await client.request(command, 60)
        finally:
            client.close()
            await client.wait_closed()

    return asyncio.run(one())


def send(topic: str) -> Command:
    ext = {"a": "pg", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}
    return make_request(codes.SEND_MESSAGE_V2, 0, ext, b"x")


def test_a_topic_is_known_to_the_name_server_once_created() -> None:
    before = set(threading.enumerate())  # the blocking façade's thread may live here already
    with Broker() as broker:
        broker.create_topic("T", queues=3)
        route = ask(broker.namesrv_addr, make_request(codes.GET_ROUTEINFO_BY_TOPIC, 0, {"topic": "T"}))
        assert route.code == 0 and b'"writeQueueNums":3' in route.body
        assert broker.broker_addr.encode() in route.body
        assert "T" in broker.topics()
        folder = broker.store_folder
    assert not os.path.exists(folder)
    assert set(threading.enumerate()) <= before


def test_a_store_of_ones_own_is_found_again(tmp_path: Path) -> None:
    for expected in ("0", "1"):
        with Broker(store=str(tmp_path)) as broker:
            assert os.listdir(tmp_path / "commitlog") == ["0" * 20]  # no message waits for the log's room
            assert ask(broker.broker_addr, send("T")).ext()["queueOffset"] == expected
    assert tmp_path.exists()


def test_failed_start_raises_its_cause(tmp_path: Path) -> None:
    with Broker(store=str(tmp_path)):
        second = Broker(store=str(tmp_path))
        with pytest.raises(Exception, match="in use|lock|held"):
            second.start()
        second.stop()


def test_a_broker_that_does_not_stop_keeps_its_folder() -> None:
    goes_on = threading.Event()
    with Broker() as broker:
        folder = broker.store_folder
        assert broker._loop is not None
        broker._loop.call_soon_threadsafe(goes_on.wait)
        with pytest.raises(LocalError, match="did not stop within 0.05 s"):
            broker.stop(0.05)
        assert os.path.exists(folder)
        goes_on.set()
    assert not os.path.exists(folder)


def test_a_broker_that_does_not_run_says_so() -> None:
    with pytest.raises(LocalError, match="is not running"):
        Broker().topics()


@pytest.mark.bolide_broker(auto_create_topic_enable=False)
def test_the_fixture_takes_settings(bolide_broker: Broker) -> None:
    assert ask(bolide_broker.broker_addr, send("T")).code == codes.TOPIC_NOT_EXIST
