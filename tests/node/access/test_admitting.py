"""A broker with aclEnable over sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bolide.access.users import Credentials, signed
from bolide.broker.options.composed import BrokerOptions
from bolide.errors import ConfigError
from bolide.remoting import codes
from bolide.remoting.codes import BINARY_TYPE, JSON_TYPE
from bolide.remoting.command import make_request
from proof.kit.waiting import PATIENCE
from tests.node.brokers import broker, send_request

SELLER, THIEF = Credentials("seller1", "secret-of-seller"), Credentials("seller1", "a guess")
FILE = """\
accounts:
- accessKey: seller1
  secretKey: secret-of-seller
  topicPerms: [T=PUB]
"""


async def test_requests_of_accounts(tmp_path: Path) -> None:
    (tmp_path / "plain_acl.yml").write_text(FILE, encoding="ascii")
    settings: dict[str, Any] = {"acl_enable": True, "acl_folder": str(tmp_path)}
    async with broker(tmp_path / "store", **settings) as (node, client):
        for who, code in ((SELLER, codes.SUCCESS), (THIEF, codes.SYSTEM_ERROR), (None, codes.SYSTEM_ERROR)):
            sends = [client.request(signed(send_request(), who), PATIENCE) for _ in range(20)]
            assert {answer.code for answer in await asyncio.gather(*sends)} == {code}
        assert node.store.max_queue_offset("T", 0) == 20
        for kind in (JSON_TYPE, BINARY_TYPE):
            asked = signed(make_request(codes.UPDATE_BROKER_CONFIG, 0, {}, b"a=b", serialize_type=kind), SELLER)
            answer = await client.request(asked, PATIENCE)
            assert "Need admin permission for request code=25" in (answer.remark or "")


async def test_a_start_with_a_broken_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain_acl.yml").write_text(FILE + "  admin: perhaps\n", encoding="ascii")
    with pytest.raises(ConfigError, match=r"plain_acl.yml, account 1: admin must be true or false"):
        async with broker(tmp_path / "store", acl_enable=True, acl_folder=str(tmp_path)):
            raise AssertionError("it has started")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "needs aclFolder"),
        ({"acl_folder": "conf", "authentication_enabled": True}, "exclude each other"),
    ],
)
def test_settings_that_do_not_fit(more: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        BrokerOptions.of(acl_enable=True, **more)
