"""Standalone as a process: one ready line, clean stop, a crashed child comes back, one with a bad disk does not."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bolide.cli.terminal.output import USAGE
from bolide.errors import ConfigError
from bolide.node.process.exit_codes import BAD_CONFIG, FAILED, STOPPED, STORE_FAILED, restartable
from bolide.node.standalone import plan
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.transport.client import ClientConnection
from proof.kit.ports import reserve_port
from proof.kit.processes import ChildProcess
from proof.kit.waiting import PATIENCE, PROCESS_PATIENCE, wait_until
from tests.cli.running import invoke
from tests.node.brokers import send_request

PROGRAM = """\
import sys
from bolide.node.standalone import run_standalone

namesrv_port, broker_port, replicas = map(int, [*sys.argv[2:], "1"][:3])
flags = {"mappedFileSizeCommitLog": 1 << 26}
sys.exit(run_standalone(sys.argv[1], namesrv_port, broker_port, flags=flags, replicas=replicas))
"""


class Running(ChildProcess):
    """A standalone process and its addresses by name."""

    def __init__(self, folder: Path, replicas: int) -> None:
        ports = [str(reserve_port(1)), str(reserve_port(1, 10, 11))]
        command = [sys.executable, "-c", PROGRAM, folder / "store", *ports, str(replicas)]
        super().__init__(command, folder / "log")
        self.addresses = dict(word.split("=", 1) for word in self.wait_ready("ready namesrv=").split()[1:])

    def children(self) -> list[int]:
        task = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(number) for number in task.read_text().split()]


@contextmanager
def standalone(folder: Path, replicas: int = 1) -> Iterator[Running]:
    running = Running(folder, replicas)
    try:
        yield running
    finally:
        running.stop()


def ask(address: str, command: Command) -> Command | None:
    async def one() -> Command:
        client = await ClientConnection.connect(address, PATIENCE)
        try:
            return await client.request(command, PATIENCE)
        finally:
            client.close()
            await client.wait_closed()

    try:
        return asyncio.run(one())
    except OSError:
        return None
    except Exception:
        return None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the children in /proc")
def test_a_killed_broker_comes_back_under_its_address_and_a_stop_is_clean(tmp_path: Path) -> None:
    with standalone(tmp_path) as running:
        assert set(running.addresses) == {"namesrv", "broker-a"}
        broker = running.addresses["broker-a"]
        unknown = make_request(29999, 0)
        first = ask(broker, unknown)
        assert first is not None and first.code == codes.REQUEST_CODE_NOT_SUPPORTED
        old = max(running.children())
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: "restarting in" in running.output(), "the line that the broker restarts")
        wait_until(lambda: ask(broker, unknown) is not None, "an answer of the broker that came back")
        left = running.children()
        assert old not in left and len(left) == 2
        running.signal(signal.SIGINT)
        assert running.wait() == STOPPED
        assert not (tmp_path / "store" / "abort").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the children in /proc")
def test_a_set_of_two_goes_on_when_its_master_is_killed(tmp_path: Path) -> None:
    def stored(name: str) -> Callable[[], bool]:
        def sent() -> bool:
            answer = ask(running.addresses[name], send_request("T", b"hello"))
            return answer is not None and answer.code == codes.SUCCESS

        return sent

    with standalone(tmp_path, replicas=2) as running:
        assert set(running.addresses) == {"namesrv", "controller", "broker-a-1", "broker-a-2"}
        wait_until(lambda: stored("broker-a-1")() or stored("broker-a-2")(), "one of them is master")
        master, slave = ("broker-a-1", "broker-a-2") if stored("broker-a-1")() else ("broker-a-2", "broker-a-1")
        wait_until(lambda: "in sync are [1, 2]" in running.output(), "both in sync")
        os.kill(pid_of(running, master), signal.SIGKILL)
        wait_until(stored(slave), "the other one is master")


def pid_of(running: Running, name: str) -> int:
    """The child whose command names this store."""
    commands = {number: Path(f"/proc/{number}/cmdline").read_bytes() for number in running.children()}
    (found,) = [number for number, command in commands.items() if f'/{name}"'.encode() in command]
    return found


def test_children_end_with_their_parent(tmp_path: Path) -> None:
    with standalone(tmp_path) as running:
        children = running.children()
        running.signal(signal.SIGKILL)
        running.wait()
        wait_until(lambda: not any(Path(f"/proc/{number}").exists() for number in children), "the end of the children")


def last_line(folder: Path, namesrv_port: int, broker_port: int) -> tuple[int, str]:
    """The status of a standalone that cannot run, and the last line it logs."""
    command = [sys.executable, "-c", PROGRAM, str(folder / "store"), str(namesrv_port), str(broker_port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_PATIENCE, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr.strip().splitlines()[-1]


@pytest.mark.slow
def test_the_last_line_says_which_part_did_not_start_and_why(tmp_path: Path) -> None:
    free = reserve_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = int(other.getsockname()[1])
        taken = f"cannot listen on 127.0.0.1:{port} (listenPort = {port}): address already in use; "
        status, said = last_line(tmp_path, free, port)
        assert status == FAILED and f"standalone has stopped: broker-a did not start: {taken}" in said
        assert said.endswith("or choose another (--broker-port)")
        status, said = last_line(tmp_path, port, free)
        assert status == FAILED and f"standalone has stopped: namesrv did not start: {taken}" in said
        assert said.endswith("or choose another (--namesrv-port)")
    (tmp_path / "store" / "config").mkdir(parents=True, exist_ok=True)
    (tmp_path / "store" / "config" / "topics.json").write_bytes(b"{")
    (tmp_path / "store" / "config" / "topics.json.bak").unlink(missing_ok=True)
    status, said = last_line(tmp_path, free, reserve_port())
    assert status == BAD_CONFIG and "standalone has stopped: broker-a did not start: " in said
    assert "topics.json cannot be read" in said


def test_exit_status_decides_about_a_restart() -> None:
    assert restartable(FAILED) and restartable(-9) and restartable(-11)
    assert not restartable(STORE_FAILED) and not restartable(BAD_CONFIG) and not restartable(STOPPED)


def test_the_plan_spaces_ports_and_folders() -> None:
    namesrv, first, second = plan("/s", 9876, 10911, 2, "127.0.0.1", {"autoCreateTopicEnable": False})
    assert (namesrv.flags["listenPort"], first.flags["listenPort"], second.flags["listenPort"]) == (9876, 10911, 10921)
    assert first.flags["storePathRootDir"] == "/s/broker-a"
    assert second.flags["namesrvAddr"] == "127.0.0.1:9876" and second.flags["autoCreateTopicEnable"] is False
    (_, only) = plan("/s", 0, 0, 1, "127.0.0.1", {})
    assert only.flags["storePathRootDir"] == "/s" and only.flags["listenPort"] != 0
    with pytest.raises(ConfigError, match="must be 1 to 26"):
        plan("/s", 0, 0, 27, "127.0.0.1", {})


def test_each_broker_has_a_monitoring_port_of_its_own() -> None:
    def ports(brokers: int = 3, replicas: int = 1, **flags: object) -> list[object]:
        children = plan("/s", 9876, 10911, brokers, "127.0.0.1", flags, replicas)
        assert not any("metricsPromExporterPort" in each.flags for each in children if each.kind != "broker")
        return [each.flags.get("metricsPromExporterPort") for each in children if each.kind == "broker"]

    assert ports(metricsExporterType="PROM") == [5557, 5567, 5577]
    assert ports(metricsExporterType="PROM", metricsPromExporterPort="6000", brokers=2, replicas=2) == [
        6000, 6010, 6020, 6030,
    ]  # fmt: skip
    free = ports(metricsExporterType="PROM", metricsPromExporterPort=0)
    assert len(set(free)) == 3 and all(isinstance(port, int) and port > 0 for port in free)
    assert ports() == [None] * 3
    assert ports(metricsExporterType="PROM", metricsPromExporterPort="many") == ["many"] * 3  # each broker refuses it


def test_the_plan_of_sets_has_a_controller_and_replicas_of_one_name() -> None:
    _, controller, *brokers = plan("/s", 9876, 10911, 2, "127.0.0.1", {"allAckInSyncStateSet": False}, 2)
    assert controller.flags["listenPort"] == 9877
    assert [child.name for child in brokers] == ["broker-a-1", "broker-a-2", "broker-b-1", "broker-b-2"]
    assert [child.flags["brokerName"] for child in brokers] == ["broker-a", "broker-a", "broker-b", "broker-b"]
    assert {child.flags["controllerAddr"] for child in brokers} == {"127.0.0.1:9877"}
    assert {child.flags["allAckInSyncStateSet"] for child in brokers} == {False}
    assert len({child.flags["storePathRootDir"] for child in brokers}) == 4
    *_, replica = plan("/s", 9876, 10911, 1, "0.0.0.0", {"brokerIP1": "192.0.2.7"}, 2)
    assert replica.flags["brokerIP2"] == "127.0.0.1", "its log is served to this machine only"
    with pytest.raises(ConfigError, match="--replicas 6 is not allowed"):
        plan("/s", 0, 0, 1, "127.0.0.1", {}, 6)


@pytest.mark.parametrize(("option", "number", "most"), [("--replicas", "99", 5), ("--brokers", "27", 26)])
def test_too_many_are_an_error_of_usage_in_one_sentence(option: str, number: str, most: int) -> None:
    done = invoke("standalone", "--store", "/s", option, number)
    said = f"bolide: {option} {number} is not allowed: it must be 1 to {most}\n"
    assert (done.exit_code, done.stdout, done.stderr) == (USAGE, "", said)
