"""Requests to all name servers."""

from __future__ import annotations

import pytest

from bolide.errors import ConnectionLost
from bolide.testing.broker import Broker
from tests.client.patient import Admin

NOBODY = "127.0.0.1:1"


async def test_name_server_that_is_down_keeps_no_change_from_the_others(bolide_broker: Broker) -> None:
    async with Admin([NOBODY, bolide_broker.namesrv_addr]) as admin, Admin(bolide_broker.namesrv_addr) as other:
        with pytest.raises(ConnectionLost, match=NOBODY):
            await admin.put_kv("N", "key", "value")
        assert await other.get_kv("N", "key") == "value"
