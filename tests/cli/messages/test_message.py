"""`bolide message`: one message for people and for programs."""

from __future__ import annotations

import json

from bolide.client import Message
from bolide.testing.broker import Broker
from proof.kit.waiting import wait_until
from tests.cli.running import invoke
from tests.client.patient_blocking import Producer


def test_people_see_words_and_programs_see_json(bolide_broker: Broker) -> None:
    with Producer("G", bolide_broker.namesrv_addr) as producer:
        sent = producer.send(Message("Shown", b"a body", tags="T", keys=["k1", "k2"], properties={"colour": "red"}))
    words = ["message", "get", sent.message_id, "--topic", "Shown", "--namesrv", bolide_broker.namesrv_addr]
    told = invoke(*words, COLUMNS="200").output
    rows = {
        line.split("│")[1].strip(): line.split("│")[2].strip() for line in told.splitlines() if line.count("│") == 3
    }
    assert (rows["keys"], rows["property colour"], rows["body"]) == ("k1 k2", "red", "a body")
    assert "{" not in told and "[" not in told
    shown = json.loads(invoke(*words, "--json").output)
    assert (shown["keys"], shown["properties"]["colour"], shown["body"]) == (["k1", "k2"], "red", "a body")


def test_a_producers_id_without_its_topic_says_what_is_missing(bolide_broker: Broker) -> None:
    with Producer("G", bolide_broker.namesrv_addr) as producer:
        sent = producer.send(Message("Shown", b"a body"))
    words = ["message", "get", sent.message_id, "--namesrv", bolide_broker.namesrv_addr]
    told = invoke(*words)
    sentence = (
        f"no message {sent.message_id} is stored: if it is a producer's id, as `bolide produce` shows it, give --topic"
    )
    assert (told.exit_code, told.output) == (1, f"bolide: {sentence}\n")
    assert invoke(*words, "--topic", "Shown").exit_code == 0


def test_a_list_by_key_reports_that_it_may_be_incomplete(bolide_broker: Broker) -> None:
    with Producer("G", bolide_broker.namesrv_addr) as producer:
        for number in range(3):
            producer.send(Message("Shown", b"%d" % number, keys=["k"]))
    words = ["message", "find", "Shown", "k", "--namesrv", bolide_broker.namesrv_addr, "--count"]

    def found() -> bool:
        return len(json.loads(invoke(*words, "4", "--json").stdout)["messages"]) == 3

    wait_until(found)
    whole = invoke(*words, "4")
    assert whole.exit_code == 0 and "there may be more" not in whole.output
    part = invoke(*words, "3")
    assert "a broker returned 3 messages, as many as it may, so there may be more" in part.stderr
    for count, reached in (("3", True), ("4", False)):
        shown = json.loads(invoke(*words, count, "--json").stdout)
        assert (shown["limit"], shown["limit_reached"]) == (int(count), reached)
