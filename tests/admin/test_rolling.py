"""Brokers that are restarted one after the other: the order, what each step waits for, and that nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bolide.admin.drain import only_at
from bolide.admin.rolling import Rolling, RollingStep, StepFailed, StepKind, restart_plan
from bolide.client import BolideError, Message, NoQueue, ResponseError
from bolide.errors import ConnectionLost
from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.namesrv import NamesrvNode
from bolide.remoting import codes
from bolide.remoting.bodies.route import ClusterInfo
from proof.kit.ports import reserve_port
from proof.kit.waiting import PROCESS_PATIENCE, until
from tests.admin.failing_requests import FailingAdmin
from tests.client.patient import Admin, Producer, PushConsumer
from tests.node.brokers import options
from tests.node.replication.controlled import controlled


async def test_a_set_under_a_controller_is_restarted_without_the_loss_of_a_message(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        ports = {"a": reserve_port(1, -2), "b": reserve_port(1, -2)}

        async def start(name: str) -> BrokerNode:
            return await of.start(name, all_ack_in_sync_state_set=True, listen_port=ports[name])

        first = await start("a")
        await of.leads(first)
        second = await start("b")
        await of.all_in_sync(1, 2)
        restarted: list[str] = []

        async def restart(step: RollingStep) -> None:
            name = {node.address: name for name, node in of.running.items()}[step.address]
            assert not of.running[name].parts.role.may_write, "a master has handed over"
            restarted.append(name)
            await of.stop(name)
            await start(name)

        said: list[str] = []
        async with Admin(of.names.address) as admin, Producer("P", of.names.address) as producer:
            await admin.create_topic("T", queues=2)
            steps = await restart_plan(admin)
            assert [(each.action, each.address) for each in steps] == [
                (StepKind.RESTART, second.address),
                (StepKind.HAND_OVER, second.address),
                (StepKind.RESTART, first.address),
            ]
            acknowledged: list[bytes] = []
            rolling = asyncio.create_task(Rolling(admin, restart, PROCESS_PATIENCE, 0.0, said.append).take(steps))
            number = 0
            while not rolling.done():
                number += 1
                try:
                    await producer.send(Message("T", b"%d" % number))
                except BolideError:
                    continue
                acknowledged.append(b"%d" % number)
            assert await rolling == 3
        assert restarted == ["b", "a"]
        assert of.master() is of.running["b"]
        assert of.in_sync() == {1, 2}
        assert sum("is back" in text for text in said) == 2
        seen: set[bytes] = set()
        consumer = PushConsumer("G", of.names.address, start_from="first")
        consumer.subscribe("T", "*", lambda message: seen.add(message.body))
        async with consumer:
            await until(lambda: seen >= set(acknowledged), "every acknowledged message")
        assert len(acknowledged) > 0


async def test_a_set_that_is_not_whole_is_not_restarted(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        await of.leads(await of.start("a"))
        await of.start("b")
        await of.all_in_sync(1, 2)
        await of.stop("b")
        async with Admin(of.names.address) as admin:
            with pytest.raises(StepFailed, match="broker-a is degraded: 2 "):
                await restart_plan(admin)
            with pytest.raises(NoQueue, match="no broker of elsewhere"):
                await restart_plan(admin, ["elsewhere"])


@asynccontextmanager
async def two_sets(folder: Path) -> AsyncIterator[tuple[NamesrvNode, dict[str, BrokerNode]]]:
    """Two masters without slaves, on ports of their own; those that run at the end are stopped."""
    names = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(folder / "kv.json")))
    await names.start()
    running: dict[str, BrokerNode] = {}
    try:
        for name in ("broker-a", "broker-b"):
            running[name] = await started(folder, names, name, reserve_port(1, -2))
        yield names, running
    finally:
        for node in running.values():
            await node.stop()
        await names.stop()


async def started(folder: Path, names: NamesrvNode, name: str, port: int) -> BrokerNode:
    """A broker of that name and port."""
    node = BrokerNode(options(folder / name, broker_name=name, namesrv_addr=names.address, listen_port=port))
    await node.start()
    return node


async def writable(admin: Admin, name: str) -> bool:
    """Whether producers of T are told to use this set."""
    return name in {queue.broker_name for queue in (await admin.topic_route("T")).write_queues()}


async def test_producers_leave_a_master_without_a_controller_and_return(tmp_path: Path) -> None:
    async with two_sets(tmp_path) as (names, running), Admin(names.address) as admin:
        await admin.create_topic("T", queues=2)
        assert await only_at(admin, "broker-a") == []
        seen: list[bool] = []

        async def restart(step: RollingStep) -> None:
            seen.append(await writable(admin, step.broker_name))
            node = running.pop(step.broker_name)
            await node.stop()
            running[step.broker_name] = await started(tmp_path, names, step.broker_name, node.port)

        steps = await restart_plan(admin)
        assert [(each.broker_name, each.action) for each in steps] == [
            (name, action)
            for name in ("broker-a", "broker-b")
            for action in (StepKind.CLOSE, StepKind.RESTART, StepKind.OPEN)
        ]
        assert await Rolling(admin, restart, PROCESS_PATIENCE, 0.0, lambda text: None).take(steps) == 6
        assert seen == [False, False]
        assert await writable(admin, "broker-a") and await writable(admin, "broker-b")


async def test_failed_restart_reports_remaining_state(tmp_path: Path) -> None:
    async with two_sets(tmp_path) as (names, _), Admin(names.address) as admin:
        await admin.create_topic("T", queues=2)
        said: list[str] = []

        async def fails(step: RollingStep) -> None:
            raise StepFailed("the machine is on fire")

        async def nothing(step: RollingStep) -> None:
            return

        with pytest.raises(StepFailed, match="on fire"):
            await Rolling(admin, fails, PROCESS_PATIENCE, 0.0, said.append).take(
                await restart_plan(admin, ["broker-a"])
            )
        assert "bolide cluster drain broker-a --undo" in said[-1]
        assert not await writable(admin, "broker-a")
        with pytest.raises(StepFailed, match=r"broker-b: .* has not started again after 0 s"):
            await Rolling(admin, nothing, 0.0, 0.0, said.append).take(await restart_plan(admin, ["broker-b"]))


class Turbulent(Admin):
    """Every query fails a few times: the brokers are changing their roles, the name server is restarting."""

    def __init__(self, namesrv: str) -> None:
        super().__init__(namesrv)
        self.busy = self.lost = 0

    async def broker_runtime(self, broker: str) -> dict[str, str]:
        if self.busy:
            self.busy -= 1
            raise ResponseError("this slave gives up what its master does not have: ask again", codes.SYSTEM_BUSY)
        return await super().broker_runtime(broker)

    async def cluster_info(self) -> ClusterInfo:
        if self.lost:
            self.lost -= 1
            raise ConnectionLost("the connection was lost")
        return await super().cluster_info()


async def test_broker_that_rejects_a_query_is_restarted(tmp_path: Path) -> None:
    async with two_sets(tmp_path) as (names, running), Turbulent(names.address) as admin:

        async def restart(step: RollingStep) -> None:
            await running.pop(step.broker_name).stop()
            running[step.broker_name] = await started(
                tmp_path, names, step.broker_name, int(step.address.split(":")[1])
            )
            admin.busy = admin.lost = 1

        step = RollingStep("broker-a", StepKind.RESTART, running["broker-a"].address, 0)
        admin.busy = 1
        assert await Rolling(admin, restart, PROCESS_PATIENCE, 0.0, lambda text: None).take([step]) == 1
        admin.busy = 1
        with pytest.raises(StepFailed, match=r"rejects the query of its figures after 0 s \(this slave gives up"):
            await Rolling(admin, restart, 0.0, 0.0, lambda text: None).take([step])


async def test_broker_that_is_down_is_not_restarted(tmp_path: Path) -> None:
    async with two_sets(tmp_path) as (names, running), Admin(names.address) as admin:

        async def never(step: RollingStep) -> None:
            raise AssertionError("no process to restart")

        step = RollingStep("broker-a", StepKind.RESTART, running["broker-a"].address, 0)
        await running.pop("broker-a").stop()
        rolling = Rolling(admin, never, PROCESS_PATIENCE, 0.0, lambda text: None, down_after=0.6)
        with pytest.raises(StepFailed, match="does not respond: start it first"):
            await rolling.take([step])


async def test_requests_of_a_step_that_fail_for_a_moment_are_repeated(tmp_path: Path) -> None:
    async with two_sets(tmp_path) as (names, running), FailingAdmin(names.address) as admin:
        await admin.create_topic("T", queues=2)
        away = ConnectionLost("the name server is away")

        async def restart(step: RollingStep) -> None:
            node = running.pop(step.broker_name)
            await node.stop()
            running[step.broker_name] = await started(tmp_path, names, step.broker_name, node.port)

        steps = await restart_plan(admin, ["broker-a"])
        admin.errors = {
            codes.WIPE_WRITE_PERM_OF_BROKER: [away],
            codes.GET_BROKER_RUNTIME_INFO: [ConnectionLost("the connection was idle")],
            codes.ADD_WRITE_PERM_OF_BROKER: [away, ResponseError("busy", codes.SYSTEM_BUSY)],
        }
        assert await Rolling(admin, restart, PROCESS_PATIENCE, 0.0, lambda text: None).take(steps) == 3
        assert admin.pending == [] and await writable(admin, "broker-a")


async def test_step_that_fails_to_the_end_reports_the_commands_that_continue(tmp_path: Path) -> None:
    async with two_sets(tmp_path) as (names, _), FailingAdmin(names.address) as admin:
        await admin.create_topic("T", queues=2)
        said: list[str] = []

        async def never(step: RollingStep) -> None:
            raise AssertionError("no process to restart")

        rolling = Rolling(admin, never, 0.0, 0.0, said.append)
        of_a = [
            RollingStep("broker-a", StepKind.CLOSE, "a:1", 0),
            RollingStep("broker-a", StepKind.OPEN, "a:1", 0),
            RollingStep("broker-b", StepKind.RESTART, "b:1", 0),
        ]
        away = ConnectionLost("the name server is away")
        undo = "broker-a has no write permission: bolide cluster drain broker-a --undo gives it back"
        admin.errors[codes.ADD_WRITE_PERM_OF_BROKER] = [away]
        with pytest.raises(StepFailed, match=r"back at every name server after 0 s \(the name server is away\): "):
            await rolling.take(of_a)
        assert said[-2:] == ["bolide cluster restart broker-b continues, with the same options", undo]
        said.clear()
        admin.errors[codes.WIPE_WRITE_PERM_OF_BROKER] = [away]
        with pytest.raises(StepFailed, match="has not lost its write permission"):
            await rolling.take(of_a)
        assert said == [undo], "some name servers may have taken the permission"
        admin.errors[codes.WIPE_WRITE_PERM_OF_BROKER] = [ResponseError("no right", codes.NO_PERMISSION)]
        with pytest.raises(StepFailed, match="write permission at every name server: no right$"):
            await Rolling(admin, never, PROCESS_PATIENCE, 0.0, said.append).take(of_a)


async def test_master_is_handed_over_once_its_controller_elects(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        await of.leads(await of.start("a"))
        second = await of.start("b")
        await of.all_in_sync(1, 2)
        said: list[str] = []

        async def never(step: RollingStep) -> None:
            raise AssertionError("no process to restart")

        async with LostAnswer(of.names.address) as admin:
            step = RollingStep("broker-a", StepKind.HAND_OVER, second.address, 2)
            admin.errors[codes.CONTROLLER_ELECT_MASTER] = [
                ResponseError("no leader", codes.CONTROLLER_NOT_LEADER),
                ConnectionLost("the controller stops"),
            ]
            assert await Rolling(admin, never, PROCESS_PATIENCE, 0.0, said.append).take([step]) == 1
            assert admin.pending == [] and of.master() is second
            assert said == [f"broker-a: {second.address} is the master"], "the response with the epoch was lost"
            assert await Rolling(admin, never, PROCESS_PATIENCE, 0.0, said.append).take([step]) == 1


class LostAnswer(FailingAdmin):
    """The response to the first election that the controller receives is lost."""

    lost = False

    async def switch_master(self, broker: str, to: int, controllers: str = "") -> int:
        epoch = await super().switch_master(broker, to, controllers)
        if not self.lost:
            self.lost = True
            raise ConnectionLost("the response was lost")
        return epoch


async def test_topics_of_one_set_alone_take_no_messages_meanwhile(tmp_path: Path) -> None:
    async with two_sets(tmp_path) as (names, running), Admin(names.address) as admin:
        async with Admin(names.address) as other:
            await other.create_topic("Both", queues=2)
        await admin.create_topic("Here", queues=1, broker=running["broker-a"].address)
        assert await only_at(admin, "broker-a") == ["Here"]
        assert await only_at(admin, "broker-b") == []
        (step,) = await restart_plan(admin, ["broker-a"])
        assert step.action is StepKind.RESTART and step.note == "no messages of Here meanwhile"
