"""What a broker does and refuses while it is a slave, and what it takes up as a master."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bolide.broker.core.replicas import NoReplicas
from bolide.broker.core.role import ASYNC_MASTER, SLAVE
from bolide.namesrv.options import NamesrvOptions
from bolide.node.machine.node_world import RealNodeWorld
from bolide.node.namesrv import NamesrvNode
from bolide.remoting import codes
from bolide.remoting.bodies.replication import HAClientRuntimeInfo, HAConnectionRuntimeInfo
from bolide.remoting.command import Command, make_request
from bolide.remoting.json import parse_lenient
from bolide.transport.client import ClientConnection
from proof.kit.waiting import PATIENCE
from tests.node.brokers import broker

DONE_BY_THE_MASTER = {
    codes.SEND_MESSAGE: codes.SYSTEM_BUSY,
    codes.SEND_MESSAGE_V2: codes.SYSTEM_BUSY,
    codes.SEND_BATCH_MESSAGE: codes.SYSTEM_BUSY,
    codes.CONSUMER_SEND_MSG_BACK: codes.SYSTEM_BUSY,
    codes.END_TRANSACTION: codes.SLAVE_NOT_AVAILABLE,
    codes.RESUME_CHECK_HALF_MESSAGE: codes.SLAVE_NOT_AVAILABLE,
    codes.UPDATE_AND_CREATE_TOPIC: codes.SYSTEM_ERROR,
    codes.UPDATE_AND_CREATE_TOPIC_LIST: codes.SYSTEM_ERROR,
    codes.DELETE_TOPIC_IN_BROKER: codes.SYSTEM_ERROR,
    codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: codes.SYSTEM_ERROR,
    codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: codes.SYSTEM_ERROR,
    codes.DELETE_SUBSCRIPTIONGROUP: codes.SYSTEM_ERROR,
    codes.UPDATE_AND_GET_GROUP_FORBIDDEN: codes.SYSTEM_ERROR,
    codes.SET_MESSAGE_REQUEST_MODE: codes.SYSTEM_ERROR,
    codes.INVOKE_BROKER_TO_RESET_OFFSET: codes.SYSTEM_ERROR,
}
"""Request code -> what a slave answers, whatever is asked."""
SERVED = {
    codes.GET_BROKER_RUNTIME_INFO,
    codes.GET_BROKER_CONFIG,
    codes.GET_ALL_TOPIC_CONFIG,
    codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    codes.GET_ALL_CONSUMER_OFFSET,
    codes.GET_ALL_DELAY_OFFSET,
    codes.GET_ALL_MESSAGE_REQUEST_MODE,
    codes.GET_TIMER_METRICS,
    codes.GET_TIMER_CHECK_POINT,
    codes.GET_BROKER_HA_STATUS,
}
WHERE = {"topic": "T", "queueId": "0"}


async def ask(client: ClientConnection, code: int, body: bytes = b"", **fields: str) -> Command:
    return await client.request(make_request(code, 0, fields, body), PATIENCE)


async def send(client: ClientConnection, body: bytes = b"hello", properties: str = "") -> Command:
    place = {"a": "pg", "b": "T", "c": "TBW102", "d": "1", "e": "0"}
    rest = {"f": "0", "g": "1", "h": "0", "i": properties, "j": "0", "k": "false"}
    return await ask(client, codes.SEND_MESSAGE_V2, body, **place, **rest)


async def pull(client: ClientConnection, offset: int, flags: int = 4, **more: str) -> Command:
    fields = {
        "consumerGroup": "g",
        **WHERE,
        "queueOffset": str(offset),
        "maxMsgNums": "8",
        "sysFlag": str(flags),
        "commitOffset": "0",
        "suspendTimeoutMillis": "1000",
        "subscription": "*",
        "subVersion": "0",
        **more,
    }
    return await ask(client, codes.PULL_MESSAGE, **fields)


async def fill(folder: Path) -> None:
    """A store with three messages in queue 0 of T."""
    async with broker(folder) as (_, client):
        for number in range(3):
            assert (await send(client, b"%d" % number)).code == 0


async def test_a_slave_refuses_what_belongs_to_its_master_and_serves_the_rest(tmp_path: Path) -> None:
    await fill(tmp_path)
    async with broker(tmp_path, broker_role=SLAVE, broker_id=1) as (node, client):
        before = node.store.end_offset
        answers = {code: (await ask(client, code)).code for code in DONE_BY_THE_MASTER}
        assert answers == DONE_BY_THE_MASTER
        topic = await ask(client, codes.UPDATE_AND_CREATE_TOPIC)
        assert topic.remark == (
            "Can't modify topic or subscription group from slave broker, please execute it from master broker."
        )
        assert (await ask(client, codes.INVOKE_BROKER_TO_RESET_OFFSET)).remark == (
            "Can not reset offset in slave broker"
        )
        assert str((await send(client)).remark).startswith("[REJECTREQUEST]")
        assert {code for code in SERVED if (await ask(client, code)).code != 0} == set()
        assert (await ask(client, codes.GET_MAX_OFFSET, **WHERE)).ext()["offset"] == "3"
        offset = {**WHERE, "consumerGroup": "g", "commitOffset": "2"}
        assert (await pull(client, 0)).code == codes.SYSTEM_BUSY
        assert (await ask(client, codes.GET_SUBSCRIPTIONGROUP_CONFIG, group="g")).code == 0
        assert (await ask(client, codes.UPDATE_CONSUMER_OFFSET, **offset)).code == 0
        assert (await ask(client, codes.QUERY_CONSUMER_OFFSET, **offset)).ext()["offset"] == "2"
        runtime = json.loads((await ask(client, codes.GET_BROKER_RUNTIME_INFO)).body)["table"]
        shown = {key: runtime[key] for key in ("brokerActive", "brokerRole", "storeState")}
        assert shown == {"brokerActive": "false", "brokerRole": "SLAVE", "storeState": "follows"}
        assert node.store.end_offset == before


async def test_a_slave_that_serves_reads_corrects_no_offset_and_sends_its_readers_back(tmp_path: Path) -> None:
    await fill(tmp_path)
    async with broker(tmp_path, broker_role=SLAVE, broker_id=1, slave_read_enable=True) as (_, client):
        found = await pull(client, 0)
        assert (found.code, found.ext()["suggestWhichBrokerId"], found.ext()["nextBeginOffset"]) == (0, "0", "3")
        beyond = await pull(client, 1000)
        assert (beyond.code, beyond.ext()["nextBeginOffset"]) == (codes.PULL_RETRY_IMMEDIATELY, "1000")
        at_the_end = await pull(client, 3)
        assert at_the_end.code == codes.PULL_RETRY_IMMEDIATELY
        held = await pull(client, 3, flags=6)
        assert held.code == codes.PULL_RETRY_IMMEDIATELY


class SmallMachine(RealNodeWorld):
    """So little memory that what is two records back is far back."""

    def memory_bytes(self) -> int:
        return 1000


@pytest.mark.parametrize(
    ("role", "number", "reads", "far", "near"),
    [
        (ASYNC_MASTER, 0, False, "0", "0"),
        (ASYNC_MASTER, 0, True, "1", "0"),
        (SLAVE, 1, True, "1", "0"),
    ],
)
async def test_pull_suggests_a_broker_by_distance(
    tmp_path: Path, role: str, number: int, reads: bool, far: str, near: str
) -> None:
    await fill(tmp_path)
    more = {"broker_role": role, "broker_id": number, "slave_read_enable": reads}
    async with broker(tmp_path, SmallMachine(), **more) as (_, client):
        for offset, suggested in ((0, far), (2, near)):
            answer = await pull(client, offset, maxMsgNums="1")
            assert (answer.code, answer.ext()["suggestWhichBrokerId"]) == (0, suggested)


class OfMaster(NoReplicas):
    """What the master of a running pair of 5.5.0 told."""

    def connections(self, now: int) -> list[HAConnectionRuntimeInfo]:
        shown = HAConnectionRuntimeInfo(addr="127.0.0.1:48374", slave_ack_offset=3690948, in_sync=True)
        shown.transfer_from_where = 3690948
        return [shown]

    def in_sync(self, now: int) -> int:
        return 1


class OfSlave(OfMaster):
    """What its slave told."""

    def link(self, now: int) -> HAClientRuntimeInfo:
        return HAClientRuntimeInfo(master_addr="127.0.0.1:41900", max_offset=3690948)


async def test_907_as_java_answers_it(tmp_path: Path) -> None:
    """Captured from a running pair of 5.5.0."""
    of_master = (
        b'{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,"maxOffset":0,'
        b'"transferredByteInSecond":0},"haConnectionInfo":[{"addr":"127.0.0.1:48374","diff":0,"inSync":true,'
        b'"slaveAckOffset":3690948,"transferFromWhere":3690948,"transferredByteInSecond":0}],"inSyncSlaveNums":1,'
        b'"master":true,"masterCommitLogMaxOffset":0}'
    )
    of_slave = (
        b'{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterAddr":"127.0.0.1:41900",'
        b'"masterFlushOffset":0,"maxOffset":3690948,"transferredByteInSecond":0},"haConnectionInfo":[],'
        b'"inSyncSlaveNums":0,"master":false,"masterCommitLogMaxOffset":0}'
    )
    async with broker(tmp_path) as (node, client):
        node.parts.inspection.replicas = OfMaster()
        assert (await ask(client, codes.GET_BROKER_HA_STATUS)).body == of_master
        node.parts.inspection.replicas = OfSlave()
        node.parts.role.become(SLAVE, 1, node.clock.now())
        assert (await ask(client, codes.GET_BROKER_HA_STATUS)).body == of_slave


async def test_907_of_a_slave_and_of_a_master(tmp_path: Path) -> None:
    nothing = {
        "lastReadTimestamp": 0,
        "lastWriteTimestamp": 0,
        "masterFlushOffset": 0,
        "maxOffset": 0,
        "transferredByteInSecond": 0,
    }
    for role, number, end in ((ASYNC_MASTER, 0, True), (SLAVE, 1, False)):
        async with broker(tmp_path, broker_role=role, broker_id=number) as (node, client):
            status = json.loads((await ask(client, codes.GET_BROKER_HA_STATUS)).body)
            assert status == {
                "haClientRuntimeInfo": nothing,
                "haConnectionInfo": [],
                "inSyncSlaveNums": 0,
                "master": end,
                "masterCommitLogMaxOffset": int(node.store.end_offset) if end else 0,
            }


@pytest.mark.parametrize("delay", ["DELAY\x011\x02", "TIMER_DELAY_MS\x011500\x02"], ids=["a delay level", "the timer"])
async def test_delayed_message_is_delivered_after_promotion(tmp_path: Path, delay: str) -> None:
    await fill(tmp_path)
    async with broker(tmp_path) as (node, client):
        assert (await send(client, b"later", delay)).code == 0
        node.parts.role.become(SLAVE, 1, node.clock.now())
        assert (await send(client)).code == codes.SYSTEM_BUSY
        services = (node.parts.delay, node.parts.timers, node.parts.transactions)
        assert [service.due(node.clock.now()) for service in services] == [None] * 3
        node.parts.role.become(ASYNC_MASTER, 0, node.clock.now())
        node.another_turn()
        async with asyncio.timeout(PATIENCE):
            while (await ask(client, codes.GET_MAX_OFFSET, **WHERE)).ext()["offset"] != "4":
                await asyncio.sleep(0.05)
        assert (await send(client)).code == 0


async def test_a_slave_finds_its_master_by_the_name_servers_and_has_its_tables(tmp_path: Path) -> None:
    async def brokers_of(client: ClientConnection) -> dict[str, str]:
        info = parse_lenient((await ask(client, codes.GET_BROKER_CLUSTER_INFO)).body)
        found = info["brokerAddrTable"].get("broker-a", {}).get("brokerAddrs", {})
        return {str(number): address for number, address in found.items()}

    server = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kv.json")))
    await server.start()
    names = await ClientConnection.connect(server.address, PATIENCE)
    async with broker(tmp_path / "master", namesrv_addr=server.address) as (master, client):
        assert (await send(client)).code == 0
        slave_settings = {"broker_role": SLAVE, "broker_id": 1, "namesrv_addr": server.address}
        async with broker(tmp_path / "slave", **slave_settings) as (slave, _):
            assert await brokers_of(names) == {"0": master.address, "1": slave.address}
            async with asyncio.timeout(PATIENCE):
                while slave.parts.topics.data_version.to_json() != master.parts.topics.data_version.to_json():
                    await asyncio.sleep(0.02)  # the version is taken after the last topic
            assert "T" in slave.parts.topics.table
        assert await brokers_of(names) == {"0": master.address}
    names.close()
    await names.wait_closed()
    await server.stop()
    stored = json.loads((tmp_path / "slave" / "config" / "topics.json").read_bytes())
    assert "T" in stored["topicConfigTable"]


def forget_topic(folder: Path) -> None:
    """Have the file of topics as it is before the master tells of T."""
    path = folder / "config" / "topics.json"
    stored = json.loads(path.read_bytes())
    del stored["topicConfigTable"]["T"]
    path.write_text(json.dumps(stored, indent="\t"))
    path.with_name("topics.json.bak").unlink(missing_ok=True)


async def test_a_slave_serves_a_topic_that_it_was_not_told_of_and_keeps_it_as_master(tmp_path: Path) -> None:
    await fill(tmp_path)
    forget_topic(tmp_path)
    more = {"broker_role": SLAVE, "broker_id": 1, "slave_read_enable": True}
    async with broker(tmp_path, **more) as (_, client):
        async with asyncio.timeout(PATIENCE):
            while (await pull(client, 0)).code != codes.SUCCESS:
                await asyncio.sleep(0.05)
        # mqadmin asks slaves, too, and gives up at the first that refuses.
        assert (await ask(client, codes.CLEAN_UNUSED_TOPIC)).code == codes.SUCCESS
    forget_topic(tmp_path)  # a slave that is killed before the file has it
    async with broker(tmp_path) as (node, client):
        assert "T" in json.loads((await ask(client, codes.GET_ALL_TOPIC_CONFIG)).body)["topicConfigTable"]
        assert (await pull(client, 0)).code == codes.SUCCESS
        assert (await ask(client, codes.CLEAN_UNUSED_TOPIC)).code == codes.SUCCESS
        assert (await ask(client, codes.GET_MAX_OFFSET, **WHERE)).ext()["offset"] == "3"
        assert node.parts.topics.table["T"].read_queue_nums == 1
