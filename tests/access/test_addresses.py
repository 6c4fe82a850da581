"""Expressions of addresses (docs/protocol/acl.md 2, whose table these are)."""

import pytest

from bolide.access.addresses import BadAddress, matcher


@pytest.mark.parametrize(
    ("expression", "matched", "others"),
    [
        ("", "", "127.0.0.1 ::1"),
        ("*", "127.0.0.1 ::1", ""),
        ("*.*.*.*", "127.0.0.1", ""),
        ("*:*:*:*:*:*:*:*", "::1", ""),
        ("127.0.0.1", "127.0.0.1", "127.0.0.10 ::1 nonsense"),
        ("0:0:0:0:0:0:0:1", "::1", "::2 127.0.0.1"),
        ("127.0.0.1,127.0.0.9", "127.0.0.1 127.0.0.9", "127.0.0.2"),
        ("127.0.0.{1,2,3}", "127.0.0.2 127.0.0.3", "127.0.0.4"),
        ("fe80::{1,2}", "fe80::2", "fe80::3"),
        ("127.0.0.*", "127.0.0.0 127.0.0.255", "127.0.1.1"),
        ("127.*.*.*", "127.4.3.2", "128.0.0.1"),
        ("127.0.*.1", "127.0.9.7", "127.1.0.1"),
        ("127.0.0.1-20", "127.0.0.1 127.0.0.20", "127.0.0.21 127.0.0.0"),
        ("127.0.1-20.*", "127.0.20.255", "127.0.0.1"),
        ("5::7:6:*", "5::7:6:ffff", "5::7:7:1 127.0.0.1"),
        ("5::7:6:1-200:*", "5::7:6:200:9", "5::7:6:201:9"),
        ("2::ac5:78:1-200", "2::ac5:78:1ff", "2::ac5:78:201"),
    ],
)
def test_addresses_of_an_expression(expression: str, matched: str, others: str) -> None:
    matches = matcher(expression)
    assert [each for each in matched.split() if not matches(each)] == []
    assert [each for each in others.split() if matches(each)] == []


@pytest.mark.parametrize(
    "expression",
    [
        *("127.0.0", "abc", "10.0.0.0/8", "256.0.0.*", "10.0.0.20-10", "10.0.0.1-256", "127.0.0.1, 127.0.0.9"),
        *("*.0.0.1", "10.0.0.0-0", "10.0.0.-", "10.0.0.1-", "10.0.0.*.1", "1}", "127.0.0.{}", "127.0.0.{1"),
        *("5::7::*", "1:2:3:4:5:6:7:8:*", "5::*:1", "::g:*", "127.0.0.+1-2", "127.0.0.1_0-20"),
    ],
)
def test_invalid_address_expression_is_rejected(expression: str) -> None:
    with pytest.raises(BadAddress):
        matcher(expression)
