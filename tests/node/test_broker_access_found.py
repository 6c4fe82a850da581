"""Nobody reaches what belongs to others by positions, ids, hashes or lists: what is found is compared with policies."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bolide.access.users import Credentials, signed
from bolide.layout.hashes import java_hash
from bolide.layout.names import TRANS_CHECK_MAX_TIME_TOPIC
from bolide.layout.property_names import INNER_MULTI_DISPATCH
from bolide.node.broker import BrokerNode
from bolide.remoting import codes
from bolide.remoting.batch import BatchMessage, encode_batch
from bolide.remoting.command import Command, make_request
from bolide.transport.client import ClientConnection
from proof.kit.waiting import PATIENCE, until
from proof.reader.records import read_records
from tests.node.brokers import broker, pull_request, send_request

ROOT = Credentials("root", "s3cret-of-root")
ALICE = Credentials("alice", "s3cret-of-alice")
OWN, SECRET = "topic-Aa", "topic-BB"
"""Topics of one length and one hash: keys of both are in the same slot of the index."""
SETTINGS: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": '{"username":"root","password":"s3cret-of-root"}',
    "enable_lmq": True,
    "enable_multi_dispatch": True,
    "transaction_check_interval": 1_000,
    "transaction_time_out": 1_000,
}


def entry(resource: str, *actions: str) -> dict[str, Any]:
    return {"resource": resource, "actions": actions, "decision": "Allow"}


ALL_OWN = ("Pub", "Sub", "Get", "Update")
POLICY = [entry(f"Topic:{OWN}", *ALL_OWN), entry("Group:mine", "Sub", "Update"), entry("Topic:%LMQ%mine*", *ALL_OWN)]


@asynccontextmanager
async def two_worlds(folder: Path, **more: Any) -> AsyncIterator[tuple[BrokerNode, ClientConnection]]:
    """A broker with messages of root's in SECRET, and the user alice, who may do everything with OWN and as `mine`."""
    async with broker(folder, **{**SETTINGS, **more}) as (node, client):
        body = b'{"password":"s3cret-of-alice"}'
        await served(client, make_request(codes.AUTH_CREATE_USER, 0, {"username": "alice"}, body), ROOT)
        policies = json.dumps({"policies": [{"entries": POLICY}]}).encode()
        await served(client, make_request(codes.AUTH_CREATE_ACL, 0, {"subject": "User:alice"}, policies), ROOT)
        for group in ("mine", "victim"):
            body = json.dumps({"groupName": group}).encode()
            await served(client, make_request(codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 0, {}, body), ROOT)
        yield node, client


async def ask(client: ClientConnection, request: Command, who: Credentials = ALICE) -> Command:
    return await client.request(signed(request, who), PATIENCE)


async def served(client: ClientConnection, request: Command, who: Credentials = ALICE) -> Command:
    answer = await ask(client, request, who)
    assert answer.code == codes.SUCCESS, answer.remark
    return answer


async def refused(client: ClientConnection, request: Command, what: str) -> None:
    answer = await ask(client, request)
    assert answer.code == codes.NO_PERMISSION, request
    assert f"has no permission to access {what} from 127.0.0.1" in (answer.remark or "")
    assert not answer.body


def text(**properties: str) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


async def store(client: ClientConnection, topic: str, **properties: str) -> Command:
    """A message of root's."""
    return await served(client, send_request(topic, b"secret", text(**properties)), ROOT)


def offset_in(sent: Command) -> str:
    return str(int(sent.ext()["msgId"][-16:], 16))


def view(offset: str, **more: str) -> Command:
    return make_request(codes.VIEW_MESSAGE_BY_ID, 0, {"offset": offset, **more})


@pytest.mark.parametrize("strict", [False, True])
async def test_a_message_found_by_its_offset(tmp_path: Path, strict: bool) -> None:
    async with two_worlds(tmp_path, authorization_strict=strict) as (_, client):
        theirs = offset_in(await store(client, SECRET))
        mine = offset_in(await served(client, send_request(OWN)))
        for named in ({"topic": OWN}, {}):
            await refused(client, view(theirs, **named), f"Topic:{SECRET}")
            assert b"hello" in (await served(client, view(mine, **named))).body
        assert b"secret" in (await served(client, view(theirs, topic=OWN), ROOT)).body


async def test_a_message_that_waits_is_of_its_own_topic(tmp_path: Path) -> None:
    async with two_worlds(tmp_path) as (_, client):
        theirs = offset_in(await store(client, SECRET, DELAY="9"))
        mine = offset_in(await served(client, send_request(OWN, properties=text(DELAY="9"))))
        await refused(client, view(theirs, topic=OWN), f"Topic:{SECRET}")
        await served(client, view(mine, topic=OWN))


async def test_a_message_in_a_light_queue_is_of_that_queue_too(tmp_path: Path) -> None:
    async with two_worlds(tmp_path) as (_, client):
        theirs = offset_in(await store(client, SECRET, INNER_MULTI_DISPATCH="%LMQ%theirs"))
        mine = offset_in(await store(client, SECRET, INNER_MULTI_DISPATCH="%LMQ%theirs,%LMQ%mine-1"))
        await refused(client, view(theirs, topic="%LMQ%mine-1"), f"Topic:{SECRET}")
        await served(client, view(mine, topic="%LMQ%mine-1"))


async def test_messages_whose_keys_have_the_same_hash(tmp_path: Path) -> None:
    assert java_hash(OWN) == java_hash(SECRET)
    async with two_worlds(tmp_path) as (_, client):
        await store(client, SECRET, KEYS="k")
        await store(client, OWN, KEYS="k")
        fields = {"topic": OWN, "key": "k", "maxNum": "9", "beginTimestamp": "0", "endTimestamp": str(1 << 60)}
        query = make_request(codes.QUERY_MESSAGE, 0, fields)
        assert (await served(client, query, ROOT)).body.count(b"secret") == 2
        query = make_request(codes.QUERY_MESSAGE, 0, dict(fields))
        found = await served(client, query)
        assert found.body.count(b"secret") == 1 and SECRET.encode() not in found.body


async def test_a_message_that_is_sent_back(tmp_path: Path) -> None:
    async with two_worlds(tmp_path) as (node, client):
        back = {"group": "mine", "delayLevel": "1"}
        theirs, mine = offset_in(await store(client, SECRET)), offset_in(await store(client, OWN))
        request = make_request(codes.CONSUMER_SEND_MSG_BACK, 0, {"offset": theirs, **back})
        await refused(client, request, f"Topic:{SECRET}")
        assert node.parts.topics.get("%RETRY%mine") is None
        await served(client, make_request(codes.CONSUMER_SEND_MSG_BACK, 0, {"offset": mine, **back}))
        again = make_request(codes.CONSUMER_SEND_MSG_BACK, 0, {"offset": theirs, **back, "group": "victim"})
        await served(client, again, ROOT)
        retried = offset_in(await store(client, "%RETRY%mine"))
        await served(client, make_request(codes.CONSUMER_SEND_MSG_BACK, 0, {"offset": retried, **back}))


@pytest.mark.parametrize("code", [codes.PULL_MESSAGE, codes.LITE_PULL_MESSAGE])
async def test_the_retries_of_another_group(tmp_path: Path, code: int) -> None:
    async with two_worlds(tmp_path, authorization_strict=True) as (_, client):
        for group in ("mine", "victim"):
            await store(client, f"%RETRY%{group}")
        theirs, mine = (pull_request(f"%RETRY%{group}", consumerGroup="mine") for group in ("victim", "mine"))
        theirs.code = mine.code = code
        await refused(client, theirs, "Group:victim")
        assert b"secret" in (await served(client, mine)).body


def end(half: Command, group: str, **more: str) -> Command:
    fields = {"producerGroup": group, "commitOrRollback": "8", "fromTransactionCheck": "false", "msgId": "M", **more}
    fields |= {"tranStateTableOffset": half.ext()["queueOffset"], "commitLogOffset": offset_in(half)}
    return make_request(codes.END_TRANSACTION, 0, fields)


async def test_a_transaction_of_another_topic(tmp_path: Path) -> None:
    async with two_worlds(tmp_path, transaction_time_out=600_000) as (_, client):
        half = text(TRAN_MSG="true", PGROUP="theirs")
        theirs = await served(client, send_request(SECRET, b"secret", half), ROOT)
        mine = await served(client, send_request(OWN, b"mine", half))
        for named in ({}, {"topic": OWN}):
            await refused(client, end(theirs, "theirs", **named), f"Topic:{SECRET}")
        await served(client, end(mine, "theirs"))
        assert (await served(client, end(theirs, "theirs"), ROOT)).remark is None


async def test_a_half_message_is_shown_to_those_only_who_may_send_it(tmp_path: Path) -> None:
    async with two_worlds(tmp_path) as (node, client):
        asked: list[Command] = []

        def note(_: ClientConnection, question: Command) -> None:
            asked.append(question)

        spy = await ClientConnection.connect(node.address, PATIENCE, on_request=note)
        try:
            beat = json.dumps({"clientID": "spy", "producerDataSet": [{"groupName": "theirs"}]}).encode()
            await served(spy, make_request(codes.HEART_BEAT, 0, {}, beat))
            half = text(TRAN_MSG="true", PGROUP="theirs")
            await served(client, send_request(SECRET, b"secret", half), ROOT)
            await served(client, send_request(OWN, b"mine", half))
            await until(lambda: any(b"mine" in question.body for question in asked))
            assert not any(b"secret" in question.body for question in asked)
        finally:
            spy.close()
            await spy.wait_closed()


async def test_a_half_message_that_was_given_up(tmp_path: Path) -> None:
    async with two_worlds(tmp_path, transaction_check_max=1) as (node, client):
        half = text(TRAN_MSG="true", PGROUP="theirs")
        await served(client, send_request(SECRET, b"secret", half), ROOT)
        pull = pull_request(TRANS_CHECK_MAX_TIME_TOPIC)
        store = node.store
        await until(lambda: store.max_queue_offset(TRANS_CHECK_MAX_TIME_TOPIC, 0) > 0)
        given_up = await served(client, pull, ROOT)
        at = read_records(given_up.body)[0].at
        message_id = f"7F00000100002A9F{at:016X}"
        fields = {"topic": OWN, "msgId": message_id}
        await refused(client, make_request(codes.RESUME_CHECK_HALF_MESSAGE, 0, dict(fields)), f"Topic:{SECRET}")
        await served(client, make_request(codes.RESUME_CHECK_HALF_MESSAGE, 0, dict(fields)), ROOT)


async def test_a_message_that_a_consumer_is_made_to_consume(tmp_path: Path) -> None:
    async with two_worlds(tmp_path) as (_, client):
        fields = {"consumerGroup": "mine", "clientId": "c", "topic": OWN}
        for topic, what in ((SECRET, f"Topic:{SECRET}"), (OWN, "")):
            sent = await store(client, topic)
            request = make_request(codes.CONSUME_MESSAGE_DIRECTLY, 0, {**fields, "msgId": sent.ext()["msgId"]})
            if what:
                await refused(client, request, what)
            else:
                assert "not online" in ((await ask(client, request)).remark or "")


def in_batch(properties: str) -> Command:
    request = send_request(OWN, encode_batch([BatchMessage(0, b"forged", properties.encode())]), m="true")
    request.code = codes.SEND_BATCH_MESSAGE
    return request


def as_reply(properties: str) -> Command:
    request = send_request(OWN, b"forged", properties)
    request.code = codes.SEND_REPLY_MESSAGE_V2
    return request


def alone(properties: str) -> Command:
    return send_request(OWN, b"forged", properties)


@pytest.mark.parametrize("made", [alone, in_batch, as_reply])
async def test_light_queues_of_others(tmp_path: Path, made: Any) -> None:
    async with two_worlds(tmp_path, authorization_strict=True, store_reply_message_enable=True) as (node, client):
        for listed in ("%LMQ%theirs", "%LMQ%mine-1,%LMQ%theirs"):
            await refused(client, made(text(**{INNER_MULTI_DISPATCH: listed})), "Topic:%LMQ%theirs")
        answer = await ask(client, made(text(**{INNER_MULTI_DISPATCH: "%LMQ%mine-1,%LMQ%mine-2"})))
        assert answer.code != codes.NO_PERMISSION
        assert node.store.max_queue_offset("%LMQ%theirs", 0) == 0


async def test_offsets_of_a_group_are_cloned_for_the_topics_that_are_allowed(tmp_path: Path) -> None:
    async with two_worlds(tmp_path) as (node, client):
        for topic in (OWN, SECRET):
            await store(client, topic)
            fields = {"consumerGroup": "victim", "topic": topic, "queueId": "0", "commitOffset": "1"}
            await served(client, make_request(codes.UPDATE_CONSUMER_OFFSET, 0, fields), ROOT)
        clone = {"srcGroup": "victim", "destGroup": "mine", "offline": "true"}
        request = make_request(codes.CLONE_GROUP_OFFSET, 0, dict(clone))
        await refused(client, request, f"Topic:{SECRET}")
        assert node.parts.offsets.topics_of("mine") == []
        await served(client, make_request(codes.CLONE_GROUP_OFFSET, 0, {**clone, "topic": OWN}))
        assert node.parts.offsets.topics_of("mine") == [OWN]


async def test_the_rights_are_those_of_the_time_of_the_look(tmp_path: Path) -> None:
    """A producer that was deleted is asked about nothing any more."""
    async with two_worlds(tmp_path) as (node, client):
        beat = json.dumps({"clientID": "spy", "producerDataSet": [{"groupName": "pg"}]}).encode()
        await served(client, make_request(codes.HEART_BEAT, 0, {}, beat))
        (member,) = node.parts.clients.producer_groups["pg"].values()
        assert member.may_see([OWN]) and not member.may_see([SECRET])
        await served(client, make_request(codes.AUTH_DELETE_USER, 0, {"username": "alice"}), ROOT)
        assert not member.may_see([OWN])
