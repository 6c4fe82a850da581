"""Which addresses may name another client."""

from __future__ import annotations

import pytest

from bolide.errors import ConfigError
from bolide.transport.trusted_proxies import TrustedProxies


@pytest.mark.parametrize(
    ("text", "address", "trusted"),
    [
        ("", "127.0.0.1", False),
        (" , ", "127.0.0.1", False),
        ("10.0.0.7", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.8", False),
        ("10.0.0.7, 10.1.0.0/16", "10.1.255.3", True),
        ("10.1.0.0/16", "10.2.0.1", False),
        ("10.0.0.7", "::ffff:10.0.0.7", True),
        ("::1,fd00::/8", "::1", True),
        ("fd00::/8", "fd12::4", True),
        ("fd00::/8", "fe80::4", False),
        ("0.0.0.0/0", "no address", False),
        ("0.0.0.0/0", "::1", False),
    ],
)
def test_only_listed_addresses_are_trusted(text: str, address: str, trusted: bool) -> None:
    assert TrustedProxies(text).trusts(address) is trusted


@pytest.mark.parametrize("text", ["balancer.example", "10.0.0.0/33", "10.0.0.7/8", "10.0.0.*", "1.2.3.4;1.2.3.5"])
def test_unreadable_list_names_the_setting(text: str) -> None:
    with pytest.raises(ConfigError, match="trustedProxies = .* is not allowed: .*write addresses and networks"):
        TrustedProxies(text)
