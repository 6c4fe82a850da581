from __future__ import annotations

import signal
import socket

import pytest

from proof.attack.servers import End
from proof.kit.ports import reserve_port

SAID = "the store is damaged"


def end(status: int, *, wanted: bool = False, strained: bool = False, served: bool = True) -> End:
    return End(1.0, status, SAID, wanted, strained, served)


@pytest.mark.parametrize(
    "fine",
    [
        end(-signal.SIGKILL, wanted=True),
        end(0, wanted=True),
        end(74, strained=True),
        end(1, strained=True),
        end(-signal.SIGABRT, strained=True, served=False),
    ],
)
def test_ends_that_faults_explain(fine: End) -> None:
    assert fine.problem() == ""


@pytest.mark.parametrize(
    "bad",
    [
        end(0),
        end(1),
        end(74),
        end(-signal.SIGSEGV, strained=True),
        end(-signal.SIGABRT, strained=True),
        end(2, strained=True),
    ],
)
def test_ends_that_nothing_explains(bad: End) -> None:
    assert SAID in bad.problem()


def test_a_port_is_free_and_given_once() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", reserve_port()))
        ports = [reserve_port() for _ in range(5)]
        assert len(set(ports)) == 5 and one.getsockname()[1] not in ports
