"""`bolide topic`: the listed topics, and the producers connected to the brokers of one."""

from __future__ import annotations

import json

from bolide.client import Message
from bolide.testing.broker import Broker
from tests.cli.running import invoke
from tests.client.patient_blocking import Producer


def test_producers_of_a_topic_are_listed_by_group(bolide_broker: Broker) -> None:
    def run(*words: str) -> list[tuple[str, str]]:
        done = invoke("topic", "producers", *words, "-n", bolide_broker.namesrv_addr, "--json")
        assert done.exit_code == 0, done.output
        return [(row["group"], row["client"]) for row in json.loads(done.stdout)]

    with (
        Producer("P", bolide_broker.namesrv_addr, client_id="first") as first,
        Producer("Q", bolide_broker.namesrv_addr, client_id="second") as second,
    ):
        for producer in (first, second):
            producer.send(Message("T", b"x"))
        assert run("T") == [("P", "first"), ("Q", "second")]
        assert run("T", "--group", "Q") == [("Q", "second")]
        assert run("T", "--group", "R") == []
    missing = invoke("topic", "producers", "None", "-n", bolide_broker.namesrv_addr)
    assert missing.exit_code == 1 and "None" in missing.stderr


def test_retry_topics_are_listed_with_system_topics(bolide_broker: Broker) -> None:
    def run(*words: str) -> set[str]:
        done = invoke("topic", "list", *words, "-n", bolide_broker.namesrv_addr, "--json")
        return {row["topic"] for row in json.loads(done.stdout)}

    for topic in ("T", "%RETRY%G", "%DLQ%G"):
        assert invoke("topic", "create", topic, "-n", bolide_broker.namesrv_addr).exit_code == 0
    assert run() == {"T", "%DLQ%G"}
    assert run("--system") > {"T", "%DLQ%G", "%RETRY%G", "TBW102"}
