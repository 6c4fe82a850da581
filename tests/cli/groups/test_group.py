"""`bolide group`: the lag of all groups in one answer, and the members of one with their stacks."""

from __future__ import annotations

import json

from click.testing import Result

from bolide.client import Message
from bolide.testing.broker import Broker
from proof.kit.waiting import wait_until
from tests.cli.running import invoke
from tests.client.patient_blocking import Producer, PullConsumer, PushConsumer


def test_the_lag_of_every_group_is_listed_the_largest_first() -> None:
    def run(*words: str) -> str:
        done = invoke(*words, "-n", broker.namesrv_addr)
        assert done.exit_code == 0, done.output
        return done.stdout

    with Broker() as broker:
        run("topic", "create", "Lagging", "--queues", "1")
        with Producer("P", broker.namesrv_addr) as producer:
            for _ in range(3):
                producer.send(Message("Lagging", b"x"))
        for group, start in (("ahead", "last"), ("behind", "first")):
            run("group", "create", group)
            run("offset", "reset", group, "Lagging", start, "--yes")
        rows = json.loads(run("group", "lag", "--json"))
        assert [(row["group"], row["lag"]) for row in rows] == [("behind", 3), ("ahead", 0)]
        assert rows[0]["lag_time"] > 0 and rows[1]["lag_time"] == 0
        (queue,) = json.loads(run("group", "show", "behind", "--json"))["queues"]
        assert queue["lag_time"] >= rows[0]["lag_time"]
        assert "TOOLS_CONSUMER" in run("group", "lag", "--system")


def test_members_are_listed_with_their_stacks(bolide_broker: Broker) -> None:
    def run(*words: str) -> Result:
        return invoke("group", "members", "G", *words, "-n", bolide_broker.namesrv_addr)

    assert run().exit_code == 1
    assert "there is no group G" in run().stderr
    invoke("topic", "create", "T", "-n", bolide_broker.namesrv_addr)
    consumer = PushConsumer("G", bolide_broker.namesrv_addr, client_id="first")
    consumer.subscribe("T", "*", lambda message: None)
    with consumer, PullConsumer("G", bolide_broker.namesrv_addr, client_id="second") as second:
        second.subscribe("T")
        second.poll(timeout=0.01)
        wait_until(lambda: len(json.loads(run("--json").stdout or "[]")) == 2, "both members")
        assert [row["client"] for row in json.loads(run("--json").stdout)] == ["first", "second"]
        done = run("--stacks", "--client", "first", "--json")
        assert done.exit_code == 0, done.output
        (shown,) = json.loads(done.stdout)
        assert shown["error"] is None
        assert "in _pull_loop" in shown["stacks"] and '"MainThread"' in shown["stacks"]
        text = run("--stacks").stdout
        assert "first: stacks" in text and "\n  File " in text
        missing = run("--client", "third")
        assert missing.exit_code == 1 and "first, second are" in missing.stderr
