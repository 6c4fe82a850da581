"""Hostile inputs on live sockets: each is answered with its code or closed for less than a second of the processor's
time, leaves one line in the log, and the next client is served as if nothing had been."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile.attack import FRAMES, HEADERS, Attack
from tests.hostile.broker_attacks import BROKER_ATTACKS
from tests.hostile.namesrv_attacks import NAMESRV_ATTACKS
from tests.interop.our_processes import OurBroker, OurNameServer
from tests.interop.processes import ServerProcess, until
from tests.interop.wire import GET_ROUTE, SEND_MESSAGE_V2, SUCCESS, Wire, send_ext

ANSWER_SECONDS = 30.0
"""Of a busy machine; a connection that is merely idle is closed after a hundred and twenty."""

pytestmark = pytest.mark.xdist_group("hostile")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    server = OurBroker(tmp_path_factory.mktemp("broker"), "", {"flushDiskType": "ASYNC_FLUSH"})
    next_send(server.port)  # the topic exists, with four queues
    yield server
    assert server.stop() == 0, server.output()


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurNameServer]:
    server = OurNameServer(tmp_path_factory.mktemp("namesrv"))
    yield server
    assert server.stop() == 0, server.output()


def next_send(port: int) -> None:
    with Wire(port) as wire:
        assert wire.ask(SEND_MESSAGE_V2, send_ext("hostile"), b"good").code == SUCCESS


def next_route(port: int) -> None:
    with Wire(port) as wire:
        assert wire.ask(GET_ROUTE, {"topic": "nowhere"}).code == 17


def attack_and_look(server: ServerProcess, port: int, attack: Attack, afterwards: Callable[[int], None]) -> None:
    """Send the bytes, see what comes back in time, count the lines of the log, and let the next client in."""
    before = len(server.output().splitlines())
    spent = processor_seconds(server.pid)
    with Wire(port, seconds=ANSWER_SECONDS) as wire:
        wire.deliver(attack.data, eof=attack.eof)
        answer = wire.read()
    assert (answer and answer.code) == attack.expected, answer
    afterwards(port)
    until(lambda: len(server.output().splitlines()) > before, ANSWER_SECONDS, "a line in the log")
    lines = server.output().splitlines()[before:]
    assert len(lines) == 1, lines
    assert processor_seconds(server.pid) - spent < 1.0
    assert "Traceback" not in lines[0]
    assert server.running


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def by_name(attack: Attack) -> str:
    return attack.name.replace(" ", "-")


@pytest.mark.parametrize("attack", FRAMES + HEADERS + BROKER_ATTACKS, ids=by_name)
def test_broker(broker: OurBroker, attack: Attack) -> None:
    attack_and_look(broker, broker.port, attack, next_send)


@pytest.mark.parametrize("attack", FRAMES + HEADERS + NAMESRV_ATTACKS, ids=by_name)
def test_name_server(namesrv: OurNameServer, attack: Attack) -> None:
    attack_and_look(namesrv, namesrv.port, attack, next_route)


def test_there_are_enough() -> None:
    assert len(FRAMES + HEADERS + BROKER_ATTACKS) >= 40
