"""`bolide message`: one message for people and for programs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from bolide.client import Message, ReceivedMessage
from bolide.client.tracing.trace import TraceBean, TraceContext, encode_trace
from bolide.testing.broker import Broker
from proof.kit.waiting import PATIENCE, wait_until
from tests.cli.running import invoke
from tests.client.patient import PushConsumer
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


def test_a_trace_shows_the_producer_and_each_group(bolide_broker: Broker) -> None:
    async def consume() -> None:
        seen = asyncio.Event()

        async def take(message: ReceivedMessage) -> None:
            seen.set()

        consumer = PushConsumer("kitchen", bolide_broker.namesrv_addr, start_from="first", trace=True)
        consumer.subscribe("Shown", "*", take)
        async with consumer:
            await asyncio.wait_for(seen.wait(), PATIENCE)

    bolide_broker.create_topic("Shown", queues=1)
    with Producer("G", bolide_broker.namesrv_addr, trace=True) as producer:
        sent = producer.send(Message("Shown", b"a body"))
    words = ["message", "trace", sent.message_id, "--namesrv", bolide_broker.namesrv_addr]
    asyncio.run(consume())

    def steps() -> list[dict[str, Any]]:
        shown = json.loads(invoke(*words, "--json").stdout)
        assert (shown["message_id"], shown["limit_reached"], shown["unreadable"]) == (sent.message_id, False, 0)
        return list(shown["steps"])

    wait_until(lambda: [step["status"] for step in steps()] == ["stored", "consumed"])
    send, taken = steps()
    assert (send["step"], send["group"], send["broker"]) == ("send", "G", bolide_broker.broker_addr)
    assert (taken["step"], taken["group"], taken["retries"]) == ("consume", "kitchen", 0)
    assert send["started"] <= taken["started"] and send["ms"] >= 0 and taken["ms"] >= 0
    assert send["client"].startswith("127.0.0.1:")
    told = invoke(*words, COLUMNS="200").stdout
    assert "kitchen" in told and "consumed" in told and bolide_broker.broker_addr in told


def test_a_trace_at_the_limit_says_so(bolide_broker: Broker) -> None:
    with Producer("G", bolide_broker.namesrv_addr) as producer:
        for number in range(3):
            bean = TraceBean("AB", retry_times=number)
            body = encode_trace(TraceContext("SubBefore", 1_000 + number, "A", (bean,), request_id=str(number)))
            producer.send(Message("Traces", body.encode(), keys="AB"))
    words = ["message", "trace", "AB", "--trace-topic", "Traces", "--namesrv", bolide_broker.namesrv_addr, "--count"]
    wait_until(lambda: len(json.loads(invoke(*words, "64", "--json").stdout)["steps"]) == 3)
    assert invoke(*words, "64").stderr == ""
    assert (
        "a broker returned 3 trace messages, as many as it may, so there may be more steps" in invoke(*words, 3).stderr
    )
    assert json.loads(invoke(*words, 3, "--json").stdout)["limit_reached"] is True


def test_a_message_without_a_trace_is_one_sentence(bolide_broker: Broker) -> None:
    words = ["message", "trace", "AB", "--namesrv", bolide_broker.namesrv_addr]
    done = invoke(*words, "--trace-topic", "nothing")
    assert done.exit_code == 1
    assert done.stderr.startswith(
        "bolide: nothing is traced here: there is no topic nothing; set traceTopicEnable=true"
    )
    bolide_broker.create_topic("Traces")
    done = invoke(*words, "--trace-topic", "Traces")
    assert (done.exit_code, done.stderr.count("bolide: no step of message AB is recorded in Traces")) == (1, 1)
    done = invoke(*words, "--trace-topic", "Traces", "--json")
    assert (done.exit_code, json.loads(done.stdout)["steps"]) == (1, [])
