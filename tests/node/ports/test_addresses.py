"""Which address a broker tells, and when that refuses the start."""

from __future__ import annotations

import ipaddress

import pytest

from bolide.errors import ConfigError
from bolide.node.ports.addresses import announced_ip


def test_the_bound_address_is_told_unless_another_is_named() -> None:
    assert announced_ip("127.0.0.1", "") == "127.0.0.1"
    assert announced_ip("0.0.0.0", "192.0.2.5") == "192.0.2.5"
    assert announced_ip("192.0.2.4", "192.0.2.5") == "192.0.2.5"
    assert announced_ip("localhost", "") in ("127.0.0.1", "::1")
    ipaddress.ip_address(announced_ip("0.0.0.0", ""))


@pytest.mark.parametrize(("bound", "told"), [("127.0.0.1", "192.0.2.5"), ("192.0.2.5", "127.0.0.1")])
def test_an_address_that_does_not_lead_here_is_refused(bound: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"brokerIP1 = {told} cannot be reached"):
        announced_ip(bound, told)


def test_a_name_nobody_knows_is_named() -> None:
    with pytest.raises(ConfigError, match=r"brokerIP1 = no-such-host\.invalid is not a valid address"):
        announced_ip("0.0.0.0", "no-such-host.invalid")
