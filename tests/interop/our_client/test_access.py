"""Access keys at Java's brokers 4.9.7 (plain_acl.yml) and 5.5.0 (users in its own store)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.client import Message, SendFailed
from bolide.client.instance.options import ConnectionOptions
from proof.interop.java_artefacts import BROKER_VERSION, OLD_BROKER_VERSION
from proof.interop.java_processes import JavaBroker
from proof.interop.matrix import OF_OURS, marked
from proof.kit.our_processes import OurNameServer
from tests.client.patient import Producer
from tests.interop.our_client.receiving import bodies, received

pytestmark = pytest.mark.java

KEYS: ConnectionOptions = {"access_key": "RocketMQ", "secret_key": "12345678"}
PLAIN_ACL = """\
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: true
"""
NEW_ACL = {
    "authenticationEnabled": "true",
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "initAuthenticationUser": '{"username":"RocketMQ","password":"12345678"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"RocketMQ","secretKey":"12345678"}',
}


@pytest.fixture(params=[OLD_BROKER_VERSION, BROKER_VERSION])
def guarded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The name server of a Java broker that demands keys."""
    namesrv = OurNameServer(tmp_path / "namesrv")
    home = tmp_path / "broker"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "plain_acl.yml").write_text(PLAIN_ACL)
    settings = {"aclEnable": "true"} if request.param == OLD_BROKER_VERSION else NEW_ACL
    broker = JavaBroker(home, namesrv.address, settings, version=request.param)
    yield namesrv.address
    broker.kill()
    assert namesrv.stop() == 0, namesrv.output()


@marked(OF_OURS, "access keys")
async def test_keys_are_asked_for(guarded: str) -> None:
    async def send(keys: ConnectionOptions) -> None:
        async with Producer("P", guarded, **keys) as producer:
            await producer.send(Message("Guarded", b"by keys"))

    await send(KEYS)
    none: ConnectionOptions = {}
    wrong: ConnectionOptions = {"access_key": "RocketMQ", "secret_key": "87654321"}
    unknown: ConnectionOptions = {"access_key": "nobody", "secret_key": "12345678"}
    for keys in (none, wrong, unknown):
        with pytest.raises(SendFailed, match="SYSTEM_ERROR|NO_PERMISSION"):  # both are worth a retry, in Java, too
            await send(keys)
    assert bodies(await received(guarded, "Guarded", 1, **KEYS)) == ["by keys"]
