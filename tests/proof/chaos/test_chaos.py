"""A short run of chaos, as `make chaos` makes it until somebody interrupts it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bolide.node.replication.switching import REPLACED
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.bodies.replication import HAConnectionRuntimeInfo, HARuntimeInfo
from bolide.remoting.codes import SERVICE_NOT_AVAILABLE
from proof.attack.fault_shim import ROOT
from proof.chaos.__main__ import options_of, plan_of
from proof.chaos.controlled import ControlledSet
from proof.chaos.controlled_faults import CONTROLLED, faults_of
from proof.chaos.faults import FAULTS
from proof.chaos.java_clients import JavaClient, rejections
from proof.chaos.run import ChaosRun, reported_in
from proof.chaos.sets import Set, differs, make_set
from proof.kit import children
from tests.optional_programs import needed

linux = pytest.mark.skipif(sys.platform != "linux", reason="the shim, and more than one address of the loopback")
COMMAND = [sys.executable, "-m", "proof.chaos", "--bound", "240", "--json"]
ENOUGH = 6
"""Faults."""


@linux
@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.xdist_group("attack")
@pytest.mark.parametrize(
    "controller",
    [
        [],
        ["--controller", "file"],
        ["--controller", "etcd"],
        pytest.param(["--controller", "file", "--java"], marks=pytest.mark.java),
    ],
    ids=["plain", "controller", "controllers with etcd", "Java's client"],
)
def test_a_short_run_holds_and_gives_its_verdict_when_interrupted(tmp_path: Path, controller: list[str]) -> None:
    if "etcd" in controller:
        needed("etcd")  # fails where there is none
    folder = tmp_path / "chaos"
    arguments = ["--minutes", "60", "--sets", "1", "--pause", "0.2", "--only-brokers", "--folder", str(folder)]
    arguments += controller
    process = children.start(
        [*COMMAND, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = [process.stderr.readline()]
    while said[-1] and len([line for line in said if " s  " in line and "--" not in line]) < ENOUGH:
        said.append(process.stderr.readline())
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate()
    assert process.returncode == 0, "".join(said) + out + errors
    found = json.loads(out)
    assert found["held"]
    assert found["interrupted"]
    assert found["acknowledged"] > 0
    assert found["passed_bytes"] > 0
    assert set(found["faults"]) <= set(faults_of(controller[1] if controller else ""))
    assert not folder.exists()


def test_an_unknown_fault_is_refused() -> None:
    done = subprocess.run([*COMMAND, "--faults", "earthquake"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no fault is called earthquake" in done.stderr


def test_a_broken_run_says_how_to_repeat_all_of_it(tmp_path: Path) -> None:
    given = "--seed 7 --minutes 0.5 --faults kill,cut --bound 60 --sets 3 --slaves 2 --pause 0.2 --at-once 4"
    under = given.replace("kill,cut", "kill-etcd,stop-two") + " --controller etcd"
    for options in (given, f"{given} --only-brokers", under, f"{under} --only-brokers --java"):
        plan, _, _ = plan_of([*options.split(), "--folder", str(tmp_path)])
        assert " ".join(options_of(plan)) == options


def test_java_clients_join_with_numbers_that_no_other_producer_has(tmp_path: Path) -> None:
    plan, _, _ = plan_of(["--java", "--folder", str(tmp_path)])
    run = ChaosRun(plan, lambda text: None)
    run.operator.journal.close()
    assert [type(client) for client in (run.producers[-1], run.consumers[-1])] == [JavaClient, JavaClient]
    firsts = [client.setup["first"] % client.setup["stride"] for client in run.producers]
    assert len({client.setup["stride"] for client in run.producers}) == 1
    assert len(set(firsts)) == len(firsts) == plan.producers + 1
    assert len(run.progress.followers) == len(run.producers) + len(run.consumers) + 1  # and the operator's


def test_a_java_producer_knows_the_remark_of_a_replaced_master() -> None:
    """Its own copy of the remark was stale, so messages that were stored and delivered counted as rejected."""
    codes, remarks = rejections()
    assert str(SERVICE_NOT_AVAILABLE) in codes.split(",")
    assert any(remark in REPLACED for remark in remarks.split("|"))


def test_progress_of_a_slave_is_its_report_to_the_master() -> None:
    slaves = [HAConnectionRuntimeInfo(slave_ack_offset=at) for at in (1, 700)]
    assert reported_in(encode_body(HARuntimeInfo(ha_connection_info=slaves))) == 700
    assert reported_in(encode_body(HARuntimeInfo())) == -1


def made(folder: Path, slaves: int, in_sync: int) -> Set:
    return make_set("broker-1", folder, [], slaves=slaves, in_sync=in_sync, sync=True, seed=1)


def test_the_settings_of_a_set_follow_its_master(tmp_path: Path) -> None:
    one = made(tmp_path, 2, 2)
    keys = ("brokerRole", "brokerId", "inSyncReplicas")
    roles = [tuple(machine.server.flags.get(key) for key in keys) for machine in one.machines]
    assert roles == [("SYNC_MASTER", 0, 2), ("SLAVE", 1, None), ("SLAVE", 2, None)]
    one.lead(one.machines[1])
    roles = [tuple(machine.server.flags.get(key) for key in keys) for machine in one.machines]
    assert roles == [("SLAVE", 3, None), ("SYNC_MASTER", 0, 2), ("SLAVE", 2, None)]
    assert {machine.server.flags["brokerName"] for machine in one.machines} == {"broker-1"}
    alone = made(tmp_path / "other", 1, 1)
    assert (alone.master.server.flags["brokerRole"], alone.master.port + 1) == (
        "ASYNC_MASTER",
        alone.master.server.flags["haListenPort"],
    )


def test_a_controller_comes_with_its_faults_and_with_one_set_of_three(tmp_path: Path) -> None:
    plan, _, _ = plan_of(["--controller", "file", "--folder", str(tmp_path)])
    assert (plan.brokers, plan.slaves, plan.controller) == (1, 2, "file")
    assert set(CONTROLLED) - set(plan.faults) == {"kill-etcd", "stop-etcd"}
    assert "lose-master" not in plan.faults
    plan, _, _ = plan_of(["--controller", "etcd", "--folder", str(tmp_path)])
    assert set(plan.faults) == set(CONTROLLED)
    plain, _, _ = plan_of(["--folder", str(tmp_path)])
    assert (plain.brokers, plain.slaves, set(plain.faults)) == (2, 1, set(FAULTS))


@pytest.mark.parametrize(
    "options", ["--faults kill-master", "--controller file --faults kill-etcd", "--controller file --slaves 0"]
)
def test_option_of_another_kind_is_rejected(tmp_path: Path, options: str) -> None:
    with pytest.raises(SystemExit):
        plan_of([*options.split(), "--folder", str(tmp_path)])


def test_machines_under_a_controller_have_the_same_settings_whoever_leads(tmp_path: Path) -> None:
    one = ControlledSet("broker-1", made(tmp_path, 2, 2).machines, 2)
    one.lead(one.machines[1])
    assert one.slaves == [one.machines[0], one.machines[2]]
    for machine in one.machines:
        flags = machine.server.flags
        assert (flags["enableControllerMode"], flags["inSyncReplicas"]) == (True, 2)
        assert flags["haListenPort"] == machine.port + 1
        assert not {"brokerRole", "brokerId"} & set(flags)


def test_the_first_byte_that_a_slave_has_otherwise_is_named(tmp_path: Path) -> None:
    for name, data in (
        ("master", b"abcdef\0\0"),
        ("same", b"abcd\0\0\0\0"),
        ("other", b"abXdef\0\0"),
        ("more", b"abcdefg\0"),
    ):
        (tmp_path / name / "commitlog").mkdir(parents=True)
        (tmp_path / name / "commitlog" / f"{8:020d}").write_bytes(data)
    found = {name: differs(tmp_path / name, tmp_path / "master") for name in ("same", "other", "more")}
    assert found == {"same": "", "other": "at offset 10", "more": "at offset 14"}
