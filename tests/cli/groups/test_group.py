"""`bolide group`: the lag of all groups in one answer."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from bolide.cli.main import load
from bolide.client import Message
from bolide.testing.broker import Broker
from tests.client.patient_blocking import Producer


def test_the_lag_of_every_group_is_listed_the_largest_first() -> None:
    def run(*words: str) -> str:
        done = CliRunner().invoke(load(), [*words, "-n", broker.namesrv_addr])
        assert done.exit_code == 0, done.output
        return done.stdout

    with Broker() as broker:
        run("topic", "create", "Lagging", "--queues", "1")
        with Producer("P", broker.namesrv_addr) as producer:
            for _ in range(3):
                producer.send(Message("Lagging", b"x"))
        for group, start in (("ahead", "last"), ("behind", "first")):
            run("group", "create", group)
            run("offset", "reset", group, "Lagging", start)
        rows = [(row["group"], row["lag"]) for row in json.loads(run("group", "lag", "--json"))]
        assert rows == [("behind", 3), ("ahead", 0)]
        assert "TOOLS_CONSUMER" in run("group", "lag", "--system")
