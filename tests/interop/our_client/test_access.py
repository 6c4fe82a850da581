"""Access keys at Java's brokers 4.9.7 (plain_acl.yml) and 5.5.0 (users in its own store)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bolide.admin import blocking
from bolide.client import Message, ReceivedMessage, RetryLater, RpcCall, SendFailed, TransactionState
from bolide.client.instance.options import ConnectionOptions
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.remoting.signature import FULL_SIGNATURE
from proof.interop.java_artefacts import BROKER_VERSION, OLD_BROKER_VERSION
from proof.interop.java_processes import JavaBroker
from proof.interop.matrix import OF_OURS, marked
from proof.kit.our_processes import OurNameServer
from proof.kit.waiting import PROCESS_PATIENCE, until
from tests.client.patient import Admin, Producer, PushConsumer, TransactionProducer
from tests.interop.our_client.receiving import bodies, received
from tests.interop.our_client.versions import each_version
from tests.interop.signed import SETTINGS

pytestmark = pytest.mark.java

KEYS: ConnectionOptions = {"access_key": "RocketMQ", "secret_key": "12345678"}
PLAIN_ACL = """\
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: true
- accessKey: shopkeeper
  secretKey: shopkeeperpw12
  topicPerms: [Signed=PUB|SUB]
  groupPerms: [Signed-group=SUB]
"""
NEW_ACL = {
    **SETTINGS,
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "initAuthenticationUser": '{"username":"RocketMQ","password":"12345678"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"RocketMQ","secretKey":"12345678"}',
}
USER: ConnectionOptions = {"access_key": "shopkeeper", "secret_key": "shopkeeperpw12"}
"""A user with rights to one topic and one group only."""


class Seen:
    """A hook that notes the code of each request: with a full signature and accepted, or not."""

    def __init__(self) -> None:
        self.accepted: set[int] = set()
        self.others: set[tuple[int, int]] = set()
        """The codes of request and response."""

    def before(self, call: RpcCall) -> None: ...

    def after(self, call: RpcCall, answer: Command) -> None:
        if FULL_SIGNATURE in call.ext and answer.code in (codes.SUCCESS, codes.PULL_NOT_FOUND):
            self.accepted.add(call.code)
        else:
            self.others.add((call.code, answer.code))


@pytest.fixture(scope="module", params=each_version("our-client-access"))
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name server of a Java broker that demands keys."""
    folder = tmp_path_factory.mktemp(f"guarded-{request.param}")
    namesrv = OurNameServer(folder / "namesrv")
    home = folder / "broker"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "plain_acl.yml").write_text(PLAIN_ACL)
    settings = {"aclEnable": "true"} if request.param == OLD_BROKER_VERSION else NEW_ACL
    broker = JavaBroker(home, namesrv.address, settings, version=request.param)
    if request.param == BROKER_VERSION:
        with blocking.Admin(namesrv.address, **KEYS, call_timeout=PROCESS_PATIENCE) as admin:
            admin.create_user("shopkeeper", "shopkeeperpw12")
            admin.put_policy("shopkeeper", "Topic:Signed", ["Pub", "Sub"])
            admin.put_policy("shopkeeper", "Group:Signed-group", ["Sub"])
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


class Sold:
    """Commits every transaction."""

    def execute(self, message: Message, argument: object) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT


@marked(OF_OURS, "access keys")
async def test_full_signatures_do_not_disturb_java(guarded: str) -> None:
    seen = Seen()
    tried: list[tuple[bytes, int]] = []

    def fail_once(message: ReceivedMessage) -> None:
        tried.append((message.body, message.reconsume_times))
        if tried[-1] == (b"again", 0):
            raise RetryLater(1)

    async with Admin(guarded, **KEYS, hooks=(seen,)) as admin:
        await admin.create_topic("Signed", queues=1)
        await admin.create_group("Signed-group")
    async with TransactionProducer("P", guarded, Sold(), **USER, hooks=(seen,)) as producer:
        await producer.send(Message("Signed", b"one", keys="k", properties={"größe": "ä"}))
        await producer.send_batch([Message("Signed", b"two"), Message("Signed", b"again")])
        await producer.send_in_transaction(Message("Signed", b"sold"), None)
    consumer = PushConsumer("Signed-group", guarded, start_from="first", **USER, hooks=(seen,))
    consumer.subscribe("Signed", "*", fail_once)
    wanted = {(b"one", 0), (b"two", 0), (b"again", 1), (b"sold", 0)}  # the end of a transaction has no response
    async with consumer:
        await until(lambda: wanted <= set(tried), "all messages", PROCESS_PATIENCE)
    asked = {17, 200, 310, 320, 34, 11, 36, 38}
    assert asked - seen.accepted == set(), seen.others
    with pytest.raises(SendFailed, match="SYSTEM_ERROR|NO_PERMISSION"):
        async with Producer("P", guarded, **USER) as producer:
            await producer.send(Message("Other", b"not allowed"), timeout=5)
