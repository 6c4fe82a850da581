"""A broker with access control over sockets: nothing is reached around it, and nothing secret is shown."""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tools.generate_request_codes import facts

from bolide.access.users import Credentials, signed
from bolide.node.broker import BrokerNode
from bolide.remoting import codes
from bolide.remoting.codes import BINARY_TYPE
from bolide.remoting.command import Command, make_request
from bolide.transport.client import ClientConnection
from proof.kit.waiting import PATIENCE, until
from tests.node.brokers import broker, pull_request, send_request
from tests.node.name_servers import namesrv

ROOT = Credentials("root", "s3cret-of-root")
ALICE = Credentials("alice", "s3cret-of-alice")
INNER = Credentials("inner", "s3cret-of-inner")
SETTINGS: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": '{"username":"root","password":"s3cret-of-root"}',
    "inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"s3cret-of-inner"}',
}
POLICY = b'{"policies":[{"entries":[{"resource":"Topic:T","actions":["Pub","Sub"],"decision":"Allow"},%b]}]}'
GROUP = b'{"resource":"Group:g","actions":["Sub"],"decision":"Allow"}'


@asynccontextmanager
async def guarded(folder: Path, **more: Any) -> AsyncIterator[tuple[BrokerNode, ClientConnection]]:
    """A broker with a user alice, who may send to topic T and pull from it as group g."""
    async with broker(folder, **SETTINGS, **more) as (node, client):
        body = b'{"password":"s3cret-of-alice"}'
        made = await ask(client, make_request(codes.AUTH_CREATE_USER, 0, {"username": "alice"}, body), ROOT)
        policy = make_request(codes.AUTH_CREATE_ACL, 0, {"subject": "User:alice"}, POLICY % GROUP)
        assert (made.code, (await ask(client, policy, ROOT)).code) == (0, 0)
        yield node, client


async def ask(client: ClientConnection, request: Command, who: Credentials | None = None) -> Command:
    return await client.request(signed(request, who), PATIENCE)


async def test_no_code_is_served_without_a_signature(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, client):
        asked = {int(entry["code"]) for entry in facts()} | {77_777}
        for code in sorted(asked):
            answer = await ask(client, make_request(code, 0))
            assert (answer.code, answer.remark) == (codes.NO_PERMISSION, "username cannot be null."), code
        unknown = await ask(client, make_request(77_777, 0), ALICE)
        assert unknown.code == codes.REQUEST_CODE_NOT_SUPPORTED


async def test_sends_and_pulls_of_users(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (node, client):
        # Plain sends, many in one read: none may be stored before it was looked at.
        answers = await asyncio.gather(*(ask(client, send_request()) for _ in range(20)))
        assert {answer.code for answer in answers} == {codes.NO_PERMISSION}
        client.oneway(send_request())
        client.oneway(signed(send_request(), Credentials("alice", "wrong")))
        assert (await ask(client, send_request(), ALICE)).ext()["queueOffset"] == "0"
        binary = send_request()
        binary.serialize_type = BINARY_TYPE
        assert (await ask(client, binary, ALICE)).ext()["queueOffset"] == "1"
        assert (await ask(client, send_request("Other"), ALICE)).code == codes.NO_PERMISSION
        assert (await ask(client, pull_request(), ALICE)).code == 0
        assert (await ask(client, pull_request(consumerGroup="h"), ALICE)).code == codes.NO_PERMISSION
        held = client.start(signed(pull_request(offset=2, sys_flag=6, suspend=60_000), ALICE), 2 * PATIENCE)
        refused = await ask(client, pull_request(offset=2, sys_flag=6, suspend=60_000))
        assert refused.code == codes.NO_PERMISSION and not held.done()
        await ask(client, send_request(), ALICE)
        assert (await held).remark == "FOUND"
        assert not node.parts.topics.get("Other")


async def test_users_last(tmp_path: Path) -> None:
    async with guarded(tmp_path):
        pass
    async with broker(tmp_path, **SETTINGS) as (_, client):
        assert (await ask(client, send_request(), ALICE)).code == 0
        await ask(client, make_request(codes.AUTH_DELETE_USER, 0, {"username": "alice"}), ROOT)
        gone = await ask(client, send_request(), ALICE)
        assert gone.remark == "User:alice is not found."
    async with broker(tmp_path, **SETTINGS) as (_, client):
        assert (await ask(client, send_request(), ALICE)).remark == "User:alice is not found."
        assert (await ask(client, send_request(), INNER)).code == 0
    for name in ("users", "acls"):
        assert stat.S_IMODE((tmp_path / "config" / f"{name}.json").stat().st_mode) == 0o600


async def test_secrets_are_not_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with guarded(tmp_path) as (_, client):
        change = make_request(codes.UPDATE_BROKER_CONFIG, 0, body=b"initAuthenticationUser=s3cret\n")
        remarks = [(await ask(client, change, ROOT)).remark or ""]
        wrong = make_request(codes.AUTH_CREATE_USER, 0, {"username": "alice"}, b'{"password":"s3cret"}')
        remarks.append((await ask(client, wrong, ROOT)).remark or "")
        remarks.append((await ask(client, send_request(), Credentials("root", "wrong"))).remark or "")
        shown = await ask(client, make_request(codes.GET_BROKER_CONFIG, 0), ROOT)
        assert b"initAuthenticationUser=******" in shown.body
        told = " ".join(remarks) + shown.body.decode()
    assert "s3cret" not in told
    assert "s3cret" not in caplog.text


async def test_changes_by_an_administrator_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bolide.audit")
    async with guarded(tmp_path) as (_, client):
        drop = {"topic": "T"}
        await ask(client, make_request(codes.DELETE_TOPIC_IN_BROKER, 0, dict(drop)), ALICE)
        await ask(client, make_request(codes.DELETE_TOPIC_IN_BROKER, 0, dict(drop)))
        await ask(client, make_request(codes.DELETE_TOPIC_IN_BROKER, 0, dict(drop)), ROOT)
        group = b'{"groupName":"new"}'
        await ask(client, make_request(codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 0, body=group), ROOT)
        await ask(client, make_request(codes.AUTH_DELETE_ACL, 0, {"subject": "User:nobody\nX"}), ROOT)
        await ask(client, send_request(), ALICE)
        port = str(client._transport.get_extra_info("sockname")[1]) if client._transport else ""
    told = [record.getMessage() for record in caplog.records if record.name == "bolide.audit"]
    assert told == [
        f"AUTH_CREATE_USER by root at 127.0.0.1:{port}: SUCCESS (username=alice)",
        f"AUTH_CREATE_ACL by root at 127.0.0.1:{port}: SUCCESS (subject=User:alice)",
        f"DELETE_TOPIC_IN_BROKER by alice at 127.0.0.1:{port}: NO_PERMISSION (topic=T)",
        f"DELETE_TOPIC_IN_BROKER by nobody who signs at 127.0.0.1:{port}: NO_PERMISSION (topic=T)",
        f"DELETE_TOPIC_IN_BROKER by root at 127.0.0.1:{port}: SUCCESS (topic=T)",
        f"UPDATE_AND_CREATE_SUBSCRIPTIONGROUP by root at 127.0.0.1:{port}: SUCCESS (new)",
        f"AUTH_DELETE_ACL by root at 127.0.0.1:{port}: NO_PERMISSION (subject=User:nobody?X)",
    ]


async def test_name_server_registers_brokers_that_sign_and_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inner = SETTINGS["inner_client_authentication_credentials"]
    guard = {"cluster_authentication_enabled": True, "inner_client_authentication_credentials": inner}
    server = namesrv(tmp_path, **guard)
    await server.start()
    try:
        settings = {"namesrv_addr": server.address, "auto_create_topic_enable": True}
        async with broker(tmp_path / "stranger", **settings):
            assert not server.knows_topic("TBW102")
        assert "sign REGISTER_BROKER with innerClientAuthenticationCredentials at a broker" in caplog.text
        async with broker(tmp_path / "member", **settings, inner_client_authentication_credentials=inner):
            await until(lambda: server.knows_topic("TBW102"), "the member to be registered")
        await until(lambda: not server.knows_topic("TBW102"), "the member to have unregistered")
    finally:
        await server.stop()
