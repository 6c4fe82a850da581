"""`bolide cluster switch, drain, join, leave, restart`: a plan first, and what follows with `--yes`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from click.testing import Result
from typer.testing import CliRunner

from bolide.cli.cluster.cluster import app
from bolide.client import Message
from bolide.testing.broker import Broker
from proof.kit.waiting import until_answered
from tests.client.patient import Admin as AsyncAdmin
from tests.client.patient_blocking import Admin, Producer
from tests.node.replication.controlled import ControlledSet, controlled


def run(namesrv: str, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--namesrv", namesrv])


async def test_a_set_is_handed_over_only_with_yes_and_to_a_member_in_sync(tmp_path: Path) -> None:
    def switch(of: ControlledSet, *words: str) -> Result:
        return CliRunner().invoke(app, ["switch", "broker-a", "--namesrv", of.names.address, "--json", *words])

    async with controlled(tmp_path) as of:
        first = await of.start("a")
        await of.leads(first)
        second = await of.start("b")
        await of.all_in_sync(1, 2)
        plan = await asyncio.to_thread(switch, of, "--to", "2")
        assert plan.exit_code == 0, plan.output
        assert [row["next_master"] for row in json.loads(plan.stdout)] == [False, True]
        for wrong in ("1", "3"):
            assert (await asyncio.to_thread(switch, of, "--to", wrong, "--yes")).exit_code == 1
        assert first.parts.role.may_write
        assert (await asyncio.to_thread(switch, of, "--to", "2", "--yes")).exit_code == 0
        await of.leads(second)


def test_a_set_whose_topics_nobody_else_has_is_not_drained_unless_asked(tmp_path: Path) -> None:
    with Broker(str(tmp_path)) as broker, Producer("P", broker.namesrv_addr) as producer:
        producer.send(Message("Orders", b"x"))
    with Broker(str(tmp_path)) as broker:  # a new start: nothing was sent in the last ten seconds
        refused = run(broker.namesrv_addr, "drain", "broker-a", "--yes")
        assert refused.exit_code == 1 and "producers of Orders find no other set" in refused.stderr
        assert json.loads(run(broker.namesrv_addr, "drain", "broker-a", "--alone", "--json").stdout) == []
        assert writable(broker)
        done = run(broker.namesrv_addr, "drain", "broker-a", "--alone", "--yes", "--settle", "0.1")
        assert done.exit_code == 0 and "holds nothing for anybody" in done.stderr
        assert not writable(broker)
        assert run(broker.namesrv_addr, "drain", "broker-a", "--undo").exit_code == 0
        assert writable(broker)


def test_lag_of_a_group_blocks_a_drain(tmp_path: Path) -> None:
    with Broker(str(tmp_path)) as broker, Producer("P", broker.namesrv_addr) as producer:
        for _ in range(3):
            producer.send(Message("Orders", b"x"))
        with Admin(broker.namesrv_addr) as admin:
            admin.create_group("G")
            admin.reset_offset("G", "Orders", "first")
        words = ("drain", "broker-a", "--alone", "--yes", "--timeout", "0", "--settle", "0")
        late = run(broker.namesrv_addr, *words)
        assert late.exit_code == 1 and "broker-a still holds messages after 0 s" in late.stderr
        assert ("G", "Orders", 3) in [
            (row["group"], row["topic"], row["messages"])
            for row in json.loads(run(broker.namesrv_addr, "drain", "broker-a", "--alone", "--json").stdout)
        ]


def writable(broker: Broker) -> bool:
    """Whether producers are told to use it."""
    with Admin(broker.namesrv_addr) as admin:
        return bool(admin.topic_route("Orders").write_queues())


async def test_a_replica_joins_by_its_settings_and_leaves_once_it_is_stopped(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:

        async def done(*words: str) -> Result:
            return await asyncio.to_thread(run, of.names.address, *words)

        first = await of.start("a")
        await of.leads(first)
        printed = await done("join", "broker-a")
        assert printed.exit_code == 0, printed.output
        lines = dict(line.split(" = ") for line in printed.stdout.splitlines())
        assert (lines["brokerName"], lines["enableControllerMode"]) == ("broker-a", "true")
        assert lines["controllerAddr"] == of.controller.address and "brokerId" not in lines
        late = await done("join", "broker-a", "--wait", "2", "--timeout", "0")
        assert late.exit_code == 1 and "replica 2 is not registered" in late.stderr
        waiting = asyncio.create_task(done("join", "broker-a", "--wait", "2", "--timeout", "60"))
        await of.start("b")
        assert (await waiting).exit_code == 0
        assert of.in_sync() == {1, 2}
        for number, why in (("1", "is the master"), ("2", "is alive"), ("3", "has no broker with the id 3")):
            refused = await done("leave", "broker-a", "--id", number, "--yes")
            assert refused.exit_code == 1 and why in refused.stderr
        await of.stop("b")
        await until_gone(of)
        assert (await done("leave", "broker-a", "--id", "2")).exit_code == 0
        assert 2 in of.controller._controller.sets["broker-a"].value.replicas
        assert (await done("leave", "broker-a", "--id", "2", "--yes")).exit_code == 0
        assert 2 not in of.controller._controller.sets["broker-a"].value.replicas


async def until_gone(of: ControlledSet) -> None:
    """Wait until the controller misses replica 2."""

    async def gone() -> bool:
        async with AsyncAdmin(of.names.address) as admin:
            return any(each.broker_id == 2 and not each.alive for each in await admin.members("broker-a"))

    await until_answered(gone, True)


async def test_restarts_are_planned_and_a_command_that_fails_ends_them(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:

        async def done(*words: str) -> Result:
            return await asyncio.to_thread(run, of.names.address, "restart", *words)

        first = await of.start("a")
        await of.leads(first)
        second = await of.start("b")
        await of.all_in_sync(1, 2)
        plan = await done("--run", "ssh {host} restart {name} {id}", "--json")
        assert plan.exit_code == 0, plan.output
        assert [(row["step"], row["address"], row["command"]) for row in json.loads(plan.stdout)] == [
            ("restart", second.address, "ssh 127.0.0.1 restart broker-a 2"),
            ("hand over", second.address, ""),
            ("restart", first.address, "ssh 127.0.0.1 restart broker-a 1"),
        ]
        failed = await done("broker-a", "--run", f"{sys.executable} -c 'raise SystemExit(3)'", "--yes")
        assert failed.exit_code == 1 and "ended with status 3" in failed.stderr
        assert first.parts.role.may_write
        for words, why in (
            (("--run", "no-such-program-here", "--yes"), "no-such-program-here"),
            (("--run", "ssh {machine}"), "{machine}"),
            (("--run", ""), "--run is empty"),
            (("nobody", "--run", "true"), "no broker of nobody is registered"),
        ):
            refused = await done(*words)
            assert refused.exit_code != 0 and why in refused.stderr, refused.output
