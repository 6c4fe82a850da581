"""A broker and its controller: ids, a controller that is away, and what others say about roles."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bolide.node.broker import BrokerNode
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_body, encode_body
from bolide.remoting.bodies.controller import EpochEntryCache, SyncStateSet
from bolide.remoting.command import Command, make_request
from bolide.remoting.headers.controller import NotifyBrokerRoleChangedRequestHeader
from bolide.replication.switch_frames import Hello, encode_hello, encode_report
from bolide.transport.client import ClientConnection
from proof.kit.waiting import PATIENCE, until
from tests.node.replication.controlled import ControlledSet, controlled
from tests.node.replication.parts import OK, codes_of, send


async def ask(node: BrokerNode, command: Command) -> Command:
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        return await client.request(command, PATIENCE)
    finally:
        client.close()
        await client.wait_closed()


def identity(of: ControlledSet, name: str) -> bytes:
    return (of.folder / name / "brokerIdentity").read_bytes()


async def test_a_broker_without_a_controller_serves_nobody_and_leads_when_there_is_one(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        await of.controller.stop()
        first = await of.start("a", slave_read_enable=True)
        assert codes_of(await send(first, 1)) == {codes.SYSTEM_BUSY}
        pull = {"consumerGroup": "g", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1"}
        more = {"sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
        answer = await ask(first, make_request(codes.PULL_MESSAGE, 0, {**pull, **more}))
        assert answer.code == codes.SYSTEM_BUSY
        of.controller = of.another_controller()
        await of.controller.start()
        await of.leads(first)
        assert codes_of(await send(first, 1)) == OK
        assert identity(of, "a") == b"DefaultCluster#broker-a#1"


async def test_ids_are_kept_and_another_broker_gets_another(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        await of.leads(await of.start("a"))
        await of.start("b")
        await of.all_in_sync(1, 2)
        await of.stop("b")
        await of.start("c")
        await of.all_in_sync(1, 3)
        await of.start("b")
        await of.all_in_sync(1, 2, 3)
        assert [identity(of, name)[-1:] for name in "abc"] == [b"1", b"2", b"3"]


async def test_an_id_that_another_broker_took_meanwhile_is_given_up(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        await of.leads(await of.start("a"))
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "brokerIdentity-temp").write_text("DefaultCluster#broker-a#1#10.0.0.9:1;5")
        await of.start("b")
        await of.all_in_sync(1, 2)
        assert identity(of, "b") == b"DefaultCluster#broker-a#2"
        assert not (tmp_path / "b" / "brokerIdentity-temp").exists()


async def test_nobody_but_the_controller_changes_a_role(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first = await of.start("a")
        await of.leads(first)
        forged = NotifyBrokerRoleChangedRequestHeader(
            master_address="10.0.0.9:1", master_epoch=99, sync_state_set_epoch=99, master_broker_id=7
        )
        body = encode_body(SyncStateSet([7], 99))
        answer = await ask(first, make_request(codes.NOTIFY_BROKER_ROLE_CHANGED, 0, forged.to_ext(), body))
        assert answer.code == codes.SUCCESS
        # The next sign of life and answer of the controller come after the forged word.
        await of.start("b")
        await of.all_in_sync(1, 2)
        assert codes_of(await send(first, 5)) == OK
        assert first.parts.role.may_write


async def test_an_operator_sees_the_epochs(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first = await of.start("a")
        await of.leads(first)
        assert codes_of(await send(first, 5)) == OK
        await of.stop("a")
        again = await of.start("a")
        await of.leads(again)
        answer = await ask(again, make_request(codes.GET_BROKER_EPOCH_CACHE, 0, {}))
        told = decode_body(answer.body, EpochEntryCache)
        end = int(again.store.end_offset)
        assert [(one.epoch, one.start_offset) for one in told.epoch_list] == [(1, 0), (3, end)]
        assert (told.epoch_list[0].end_offset, told.max_offset, told.broker_id) == (end, end, 0)


async def test_sends_are_refused_while_too_few_replicas_are_in_sync(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first = await of.start("a", min_in_sync_replicas=2)
        await of.leads(first)
        answers = await send(first, 2)
        assert codes_of(answers) == {codes.SYSTEM_ERROR}
        assert answers[0].remark == "in-sync replicas not enough"
        await of.start("b", min_in_sync_replicas=2)
        await of.all_in_sync(1, 2)
        await until(lambda: not first.parts.role.short)
        assert codes_of(await send(first, 2)) == OK
        await of.stop("b")
        await of.all_in_sync(1)
        await until(lambda: first.parts.role.short)
        assert codes_of(await send(first, 2)) == {codes.SYSTEM_ERROR}


async def test_new_connection_of_a_replica_closes_its_older_one(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first = await of.start("a")
        await of.leads(first)
        port = first.options.replication.ha_listen_port
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in connections:
            writer.write(encode_hello(Hello(9)))
            assert await reader.read(1)
        async with asyncio.timeout(PATIENCE):
            while await connections[0][0].read(1000):
                pass
        for _, writer in connections:
            writer.close()


async def test_member_whose_connection_was_replaced_leaves_and_joins(tmp_path: Path) -> None:
    """The controller elects a replica immediately only if it has joined the set since it started."""
    async with controlled(tmp_path) as of:
        first = await of.start("a")
        await of.leads(first)
        await of.start("b")
        await of.all_in_sync(1, 2)
        set_epoch = of.controller._controller.sets["broker-a"].value.in_sync_epoch
        reader, writer = await asyncio.open_connection("127.0.0.1", first.options.replication.ha_listen_port)
        writer.write(encode_hello(Hello(2)))
        assert await reader.read(1)
        await until(lambda: of.controller._controller.sets["broker-a"].value.in_sync_epoch >= set_epoch + 2)
        await of.all_in_sync(1, 2)
        writer.close()


async def test_a_replica_that_the_controller_does_not_know_keeps_nobody_in_the_set(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first = await of.start("a")
        await of.leads(first)
        await of.start("b")
        await of.all_in_sync(1, 2)
        port = first.options.replication.ha_listen_port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode_hello(Hello(9)))
        assert await reader.read(1)
        writer.write(encode_report(0))
        switching = first._replication.side
        assert switching is not None
        await until(lambda: switching.sync_set is not None and switching.sync_set.holders(0) == 3)
        await of.stop("b")
        await of.all_in_sync(1)
        assert codes_of(await send(first, 2)) == OK
        writer.close()
