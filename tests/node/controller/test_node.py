"""A controller on a socket: it answers what is kept, elects by itself, tells brokers, and comes back as it was."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from bolide.access.users import Credentials
from bolide.controller.options import ControllerOptions
from bolide.controller.replica_set import StateDamaged
from bolide.errors import ConfigError
from bolide.node.controller.node import ControllerNode, kept_settings
from bolide.node.machine.node_world import RealNodeWorld
from bolide.node.settings.config import load_daemon
from bolide.remoting import codes
from bolide.remoting.signature import signature_holds
from proof.kit.waiting import until
from tests.client.scripted_broker import ScriptedBroker
from tests.node.controller.kept import FailingFiles
from tests.node.controller.running import brokers, controller, options, paired


async def test_a_master_that_is_lost_is_replaced_and_the_others_hear_of_it(tmp_path: Path) -> None:
    with ScriptedBroker() as told:
        async with controller(tmp_path) as node, brokers(node, "127.0.0.1:1", told.address) as (first, second):
            await paired(first, second)
            first.client.close()
            await until(
                lambda: len(told.requests(codes.NOTIFY_BROKER_ROLE_CHANGED)) == 2, "the slave to be told of both"
            )
            request = told.requests(codes.NOTIFY_BROKER_ROLE_CHANGED)[-1]
            assert request.ext() == {
                "masterAddress": told.address,
                "masterEpoch": "2",
                "syncStateSetEpoch": "3",
                "masterBrokerId": "2",
            }
            assert json.loads(request.body) == {"syncStateSet": [2], "syncStateSetEpoch": 3}
            assert (await second.info())["masterEpoch"] == "2"


async def test_start_on_an_address_that_others_reach_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with controller(tmp_path, bind_address="0.0.0.0"):
        assert "anyone who reaches 0.0.0.0 may join a broker set" in caplog.text


async def test_controller_accepts_signed_brokers_only_and_signs_what_it_sends_to_them(tmp_path: Path) -> None:
    secret = '{"accessKey":"cluster","secretKey":"secret-1"}'
    settings = {"cluster_authentication_enabled": True, "inner_client_authentication_credentials": secret}
    with ScriptedBroker() as told:
        async with controller(tmp_path, **settings) as node, brokers(node, told.address) as (member,):
            beat = await member.ask(codes.BROKER_HEARTBEAT, brokerAddr=told.address, brokerId=1)
            elect = await member.ask(codes.CONTROLLER_ELECT_MASTER, brokerId=1, designateElect="true")
            assert beat.code == elect.code == codes.NO_PERMISSION
            member.credentials = Credentials("cluster", "secret-1")
            await member.join()
            assert (await member.elect()).code == codes.SUCCESS
            await until(lambda: len(told.requests(codes.NOTIFY_BROKER_ROLE_CHANGED)) == 1, "the master to be told")
            (request,) = told.requests(codes.NOTIFY_BROKER_ROLE_CHANGED)
            assert signature_holds(request.ext(), request.body, "secret-1", request.version)


async def test_a_controller_that_stops_or_dies_comes_back_as_it_was(tmp_path: Path) -> None:
    async with controller(tmp_path) as node, brokers(node, "127.0.0.1:1", "127.0.0.1:2") as (first, second):
        await paired(first, second)
        before = await first.info()
        await node.stop()
    async with controller(tmp_path) as node, brokers(node, "127.0.0.1:1") as (first,):
        assert await first.info() == before  # its own stop has not made it elect
        assert (await first.ask(codes.CONTROLLER_GET_NEXT_BROKER_ID)).ext()["nextBrokerId"] == "3"


async def test_a_decision_that_is_not_kept_is_not_answered_as_if_it_were(tmp_path: Path) -> None:
    files = FailingFiles()
    world = RealNodeWorld(files=files)
    async with controller(tmp_path, world) as node, brokers(node, "127.0.0.1:1") as (first,):
        await first.join()
        files.failing = "after"
        answer = await first.elect()
        assert answer.code == codes.SYSTEM_ERROR and "may not be kept" in str(answer.remark)
        assert (await first.elect()).code == codes.CONTROLLER_NOT_LEADER
        files.failing = ""
        await until(lambda: node._controller.leads, "the disk to be written again")
        assert (await first.elect()).ext()["masterEpoch"] == "1"


async def test_requests_of_a_set_are_decided_one_after_the_other(tmp_path: Path) -> None:
    async with controller(tmp_path) as node, brokers(node, *(f"127.0.0.1:{n}" for n in range(1, 5))) as made:
        for one in made:
            await one.join()
        answers = await asyncio.gather(*(one.elect() for one in made))
        assert sorted(answer.code for answer in answers) == [0, *[codes.CONTROLLER_MASTER_STILL_EXIST] * 3]
        assert len({answer.ext()["masterBrokerId"] for answer in answers}) == 1


async def test_requests_that_wait_are_bounded(tmp_path: Path) -> None:
    async with (
        controller(tmp_path, max_requests_in_progress=1) as node,
        brokers(node, "127.0.0.1:1", "127.0.0.1:2") as (first, second),
    ):
        answers = await asyncio.gather(first.elect(), second.elect(), first.elect(), second.elect())
        refused = [answer for answer in answers if answer.code == codes.SYSTEM_BUSY]
        assert len(refused) < 4 and all("maxRequestsInProgress" in str(answer.remark) for answer in refused)


async def test_settings_changed_while_it_runs_are_kept(tmp_path: Path) -> None:
    async with controller(tmp_path) as node, brokers(node, "127.0.0.1:1") as (first,):
        update = b"enableElectUncleanMaster=true\n"
        assert (await first.ask(codes.UPDATE_CONTROLLER_CONFIG, update)).code == 0
    flags = {"configStorePath": f"{tmp_path}/own.conf"}
    loaded, _ = load_daemon(ControllerOptions, flags, None, kept_settings, {})
    assert loaded.options.enable_elect_unclean_master


async def test_file_store_warns_of_low_availability(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with controller(tmp_path):
        pass
    assert "it is not highly available. While it is down, no master is elected" in caplog.text


async def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="controllerStore"):
        await ControllerNode(options(tmp_path, controller_store="zookeeper:x")).start()
    (tmp_path / "sets.json").write_text("{")
    with pytest.raises(StateDamaged):
        await ControllerNode(options(tmp_path)).start()
    (tmp_path / "sets.json").unlink()
    async with controller(tmp_path):
        pass


def test_peers_of_a_raft_of_javas_are_refused() -> None:
    with pytest.raises(ConfigError, match="controllerDLegerPeers"):
        load_daemon(ControllerOptions, {"controllerDLegerPeers": "n0-a:1;n1-b:1"}, None, kept_settings, {})
