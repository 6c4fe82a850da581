"""What RocketMQ's tools read of every broker's settings."""

from __future__ import annotations

import pytest

from bolide.node.settings.tool_keys import with_tool_keys


@pytest.mark.parametrize(
    ("settings", "out"),
    [
        ({}, "false"),
        ({"tlsEnable": "true"}, "true"),
        ({"tlsEnable": "", "tlsMode": "enforcing"}, "true"),
        ({"tlsEnable": "false", "tlsMode": "enforcing"}, "false"),
    ],
)
def test_tls_of_the_client_is_that_of_what_the_broker_connects_to(settings: dict[str, str], out: str) -> None:
    found = with_tool_keys(settings)
    assert (found["useTLS"], found["filterServerNums"]) == (out, "0")
    assert found.items() >= settings.items()
