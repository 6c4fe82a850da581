"""The keywords that producers, consumers and the admin object share: named once, and nothing else is taken."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bolide.admin import Admin
from bolide.client import (
    ArgumentError,
    BolideError,
    ClientStateError,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    Retry,
    TransactionProducer,
)
from bolide.client.instance.options import ClientOptions, ConnectionOptions
from bolide.client.producing.producer import ProducerOptions
from bolide.remoting import codes
from proof.kit.waiting import until
from tests.client.scripted_broker import ScriptedBroker
from tests.client_classes import BLOCKING, NATIVE, Payments, name_of, not_started


def keywords(function: Callable[..., Any]) -> set[str]:
    """Names of the arguments that are given by keyword only."""
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def test_each_list_of_keywords_is_that_of_who_takes_them() -> None:
    assert keywords(ClientOptions.of) - {"fixed_name"} == ConnectionOptions.__annotations__.keys()
    assert keywords(Producer) == ProducerOptions.__annotations__.keys() - ConnectionOptions.__annotations__.keys()


def test_the_page_tells_of_each() -> None:
    page = (Path(__file__).parents[3] / "docs" / "client-service.md").read_text(encoding="utf-8")
    rows = "".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    assert [name for name in ConnectionOptions.__annotations__ if f"`{name}`" not in rows] == []


@pytest.mark.parametrize("kind", [*NATIVE, *BLOCKING, Admin], ids=name_of)
def test_every_client_accepts_only_connection_options(kind: type[Any]) -> None:
    not_started(kind, client_id="me", instance_name="x", access_key="a", secret_key="b", hooks=(), ssl=None)
    with pytest.raises(TypeError, match="colour"):
        not_started(kind, colour="red")


def test_a_transaction_producer_takes_those_of_a_producer() -> None:
    producer = TransactionProducer(
        "P",
        "a:1",
        Payments(),
        codec="json",
        retry=Retry(attempts=6, latency_faults=True),
        client_id="me",
        max_in_flight=3,
    )
    sender = producer._sender
    assert (sender.retries, sender.max_in_flight, producer.client_id) == (5, 3, "me")
    assert sender.codec is not None and sender.faults is not None


@pytest.mark.parametrize("binary", [False, True])
async def test_the_header_is_json_or_binary(binary: bool, broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address, binary_header=binary) as producer:
        result = await producer.send(Message("T", b"x", properties={"ä": "ö"}))
        await producer.send_oneway(Message("T", b"y"))
    assert result.offset_message_id
    assert {command.serialize_type for command in broker.seen} == {codes.BINARY_TYPE if binary else codes.JSON_TYPE}
    (sent, _) = broker.requests(codes.SEND_MESSAGE_V2)
    assert "ä\x01ö" in sent.ext()["i"]


INTERVALS = ("heartbeat_interval", "route_interval", "persist_interval", "rebalance_interval", "call_timeout")


@pytest.mark.parametrize("name", INTERVALS)
def test_options_keep_each_interval(name: str) -> None:
    given: Any = {name: 0.25}
    assert getattr(ClientOptions.of("a:1", **given), name) == 0.25
    assert getattr(ClientOptions.of("a:1"), name) == getattr(ClientOptions(("a:1",)), name)


@pytest.mark.parametrize("name", INTERVALS)
@pytest.mark.parametrize("value", [0, -1, True, None, "5", float("inf"), 600.5, 30_000])
def test_interval_out_of_range_is_rejected_by_name(name: str, value: Any) -> None:
    given: Any = {name: value}
    with pytest.raises(ArgumentError, match=f"^{name} is .*, give seconds above 0, 600 at most$"):
        PushConsumer("G", "a:1", **given)


async def test_heartbeats_and_routes_follow_their_intervals(broker: ScriptedBroker) -> None:
    """Both are 30 s by default, as long as the test may wait."""
    async with PullConsumer("G", broker.address, heartbeat_interval=0.02, route_interval=0.02) as consumer:
        consumer.subscribe("T")
        seen = len(broker.requests(codes.HEART_BEAT)), len(broker.requests(codes.GET_ROUTEINFO_BY_TOPIC))
        await until(lambda: len(broker.requests(codes.HEART_BEAT)) > seen[0] + 10, "ten heartbeats")
        await until(lambda: len(broker.requests(codes.GET_ROUTEINFO_BY_TOPIC)) > seen[1] + 10, "ten routes")


async def test_call_timeout_bounds_a_request(broker: ScriptedBroker) -> None:
    broker.script[codes.GET_ROUTEINFO_BY_TOPIC] = lambda command: None
    async with PullConsumer("G", broker.address, call_timeout=0.25) as consumer:
        with pytest.raises(BolideError, match="did not answer within the time allowed"):
            await consumer.queues("T")


async def test_consumers_with_different_persist_intervals_share_connections(broker: ScriptedBroker) -> None:
    broker.on_loop(lambda: broker.store("T", 0, b"x", ""))
    quick = PushConsumer("quick", broker.address, start_from="first", persist_interval=0.02)
    slow = PushConsumer("slow", broker.address, start_from="first", persist_interval=600)
    for consumer in (quick, slow):
        consumer.subscribe("T", "*", lambda message: None)
    async with quick, slow:
        await until(lambda: broker.offsets.get(("quick", "T", 0)) == 1, "the offset")
        assert len(broker.clients) == 1
        assert ("slow", "T", 0) not in broker.offsets


async def test_consumers_with_different_rebalance_intervals_share_connections(broker: ScriptedBroker) -> None:
    quick = PushConsumer("quick", broker.address, rebalance_interval=0.02)
    slow = PushConsumer("slow", broker.address, rebalance_interval=600)
    for consumer in (quick, slow):
        consumer.subscribe("T", "*", lambda message: None)

    def rounds(group: str) -> int:
        return sum(
            command.ext()["consumerGroup"] == group for command in broker.requests(codes.GET_CONSUMER_LIST_BY_GROUP)
        )

    async with quick, slow:
        first = rounds("slow")
        await until(lambda: rounds("quick") > 20, "twenty rounds, one each 20 s by default")
        assert len(broker.clients) == 1
        assert rounds("slow") - first <= 4, "a round when the retry topic is created, and one after a change"


async def test_second_member_with_the_same_id_is_rejected_whatever_its_options(broker: ScriptedBroker) -> None:
    async with PullConsumer("G", broker.address):
        with pytest.raises(ClientStateError, match="instance_name"):
            await PullConsumer("G", broker.address, heartbeat_interval=10).start()
        async with PullConsumer("G", broker.address, heartbeat_interval=10, instance_name="second"):
            pass


@pytest.mark.parametrize(
    ("given", "missing"), [({"access_key": "a"}, "secret_key"), ({"secret_key": "s"}, "access_key")]
)
def test_single_credential_is_rejected(given: dict[str, str], missing: str) -> None:
    with pytest.raises(ArgumentError, match=f"{missing} is missing"):
        ClientOptions.of("127.0.0.1:9876", **given)  # type: ignore[arg-type]  # all values are texts
