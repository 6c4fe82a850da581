"""The machine as a world: ports on a machine that lacks an address its names resolve to."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from bolide.world.real import RealPort, bound_sockets

HERE: Any = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 0))
OTHER_FAMILY: Any = (255, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("::1", 0))
ELSEWHERE: Any = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("192.0.2.1", 0))


@pytest.mark.parametrize("missing", [OTHER_FAMILY, ELSEWHERE])
def test_an_address_that_the_machine_lacks_does_not_keep_the_others_from_being_served(missing: Any) -> None:
    made = bound_sockets([missing, HERE])
    assert [one.getsockname()[0] for one in made] == ["127.0.0.1"]
    for one in made:
        one.close()


@pytest.mark.parametrize(("missing", "number"), [(OTHER_FAMILY, errno.EAFNOSUPPORT), (ELSEWHERE, errno.EADDRNOTAVAIL)])
def test_without_any_address_of_the_machine_a_port_cannot_be_had(missing: Any, number: int) -> None:
    with pytest.raises(OSError) as raised:
        bound_sockets([missing])
    assert raised.value.errno == number


def test_a_port_that_is_taken_at_one_address_is_refused_and_leaves_no_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = (*HERE[:4], other.getsockname())
        with pytest.raises(OSError) as raised:
            bound_sockets([HERE, taken])
    assert raised.value.errno == errno.EADDRINUSE


def test_a_port_of_one_address_knows_its_number() -> None:
    port = RealPort("127.0.0.1", 0)
    assert port.port > 0
    port.close()
