"""`bolide cluster`: brokers and replicas; what is in force, and how it changes."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from bolide.broker.core.replicas import NoReplicas
from bolide.cli.cluster.cluster import app, rate
from bolide.remoting.bodies.replication import HAConnectionRuntimeInfo
from bolide.testing.broker import Broker


def test_a_setting_is_changed_and_one_that_cannot_be_is_told() -> None:
    runner = CliRunner()
    with Broker() as broker:
        words = ["config", "broker-a", "--namesrv", broker.namesrv_addr, "--json"]
        done = runner.invoke(app, [*words, "--set", "fileReservedTime=48"])
        assert done.exit_code == 0, done.output
        shown = json.loads(done.output)
        assert shown["fileReservedTime"] == "48"
        refused = runner.invoke(app, [*words, "--set", "flushDiskType=SYNC_FLUSH"])
        assert refused.exit_code != 0 and "flushDiskType" in refused.output + str(refused.exception)


def test_rates_are_numbers_per_second() -> None:
    with Broker() as broker:
        done = CliRunner().invoke(app, ["list", "--namesrv", broker.namesrv_addr, "--json"])
    (shown,) = json.loads(done.output)
    assert (type(shown["put_per_second"]), type(shown["get_per_second"])) == (float, float)
    assert [rate(text) for text in ("1.5 2 3", "", None)] == [1.5, None, None]


def test_people_see_a_table_for_each_cluster_that_fits_a_line() -> None:
    with Broker() as broker:
        done = CliRunner().invoke(app, ["list", "--namesrv", broker.namesrv_addr])
        assert done.exit_code == 0, done.output
        title, *lines = done.output.splitlines()
        assert title.strip() == "Cluster DefaultCluster, V5_5_0"
        assert any("broker-a" in line and broker.broker_addr in line and "serves" in line for line in lines)
        assert max(map(len, lines)) <= 80


class Two(NoReplicas):
    """A slave that has all of the log, and one that lacks some."""

    def __init__(self) -> None:
        self.late, self.ms = 5_000, 700

    def connections(self, now: int) -> list[HAConnectionRuntimeInfo]:
        return [
            HAConnectionRuntimeInfo(addr="10.0.0.2:48374", slave_ack_offset=100, in_sync=True),
            HAConnectionRuntimeInfo(addr="10.0.0.3:48375", diff=self.late, in_sync=self.late == 0),
        ]

    def lags(self, now: int) -> dict[str, int]:
        return {"10.0.0.2:48374": 0, "10.0.0.3:48375": self.ms}

    def in_sync(self, now: int) -> int:
        return 1 + (self.late == 0)


def test_replicas_are_listed_and_one_that_is_not_in_sync_fails() -> None:
    runner, replicas = CliRunner(), Two()
    with Broker() as broker:
        words = ["replicas", "--namesrv", broker.namesrv_addr, "--json"]
        lonely = runner.invoke(app, words)
        assert (lonely.exit_code, json.loads(lonely.output)) == (0, [])
        assert broker._broker is not None
        broker._broker.parts.inspection.replicas = replicas
        late = runner.invoke(app, words)
        assert late.exit_code == 1
        assert "10.0.0.3:48375 lacks too much" in late.stderr
        shown = json.loads(late.stdout)
        assert [(each["replica"], each["lag"], each["lag_time"], each["in_sync"]) for each in shown] == [
            ("10.0.0.2:48374", 0, 0, True),
            ("10.0.0.3:48375", 5_000, 700, False),
        ]
        title, *lines = runner.invoke(app, words[:-1]).stdout.splitlines()
        assert title.strip() == f"Replicas of broker-a, {broker.broker_addr}"
        assert any("10.0.0.3:48375" in line and "5,000" in line and "0.7 s" in line for line in lines)
        assert max(map(len, lines)) <= 80
        replicas.ms = -1  # has not had all of the log since it connected; a master of RocketMQ says nothing, either
        assert json.loads(runner.invoke(app, words).stdout)[1]["lag_time"] is None
        replicas.late = 0
        assert runner.invoke(app, words).exit_code == 0
        (row,) = json.loads(runner.invoke(app, ["list", *words[1:]]).output)
        assert (row["role"], row["state"]) == ("ASYNC_MASTER", "serves")
