"""`bolide cluster config`: shows what is in force, and changes it."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from bolide.cli.cluster import app, rate
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
