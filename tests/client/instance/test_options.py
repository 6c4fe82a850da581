"""The keywords that producers, consumers and the admin object share: named once, and nothing else is taken."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bolide.admin import Admin
from bolide.client import Message, Producer, PullConsumer, PushConsumer, TransactionProducer, TransactionState, blocking
from bolide.client.instance.options import ClientOptions, ConnectionOptions
from bolide.client.producing.producer import ProducerOptions
from bolide.remoting import codes
from tests.client.scripted_broker import ScriptedBroker

CLASSES: list[Callable[..., Any]] = [
    Producer, PushConsumer, PullConsumer, Admin, blocking.Producer, blocking.PushConsumer, blocking.PullConsumer,
]  # fmt: skip


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


@pytest.mark.parametrize("made", CLASSES, ids=lambda made: f"{made.__module__}.{made.__name__}")
def test_they_are_taken_everywhere_and_nothing_else_is(made: Callable[..., Any]) -> None:
    first = ("G",) if made is not Admin else ()
    made(*first, namesrv="a:1", client_id="me", instance_name="x", access_key="a", secret_key="b", hooks=(), ssl=None)
    with pytest.raises(TypeError, match="colour"):
        made(*first, namesrv="a:1", colour="red")


class Listener:
    """Never asked."""

    def execute(self, message: Message, argument: Any) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: Any) -> TransactionState:
        return TransactionState.COMMIT


def test_a_transaction_producer_takes_those_of_a_producer() -> None:
    producer = TransactionProducer(
        "P", "a:1", Listener(), codec="json", retries=5, latency_faults=True, client_id="me", max_in_flight=3
    )
    assert (producer.retries, producer.max_in_flight, producer.options.client_id) == (5, 3, "me")
    assert producer.codec is not None and producer.faults is not None
    with pytest.raises(TypeError, match="colour"):
        TransactionProducer("P", "a:1", Listener(), colour="red")  # type: ignore[call-arg] # that is the test


@pytest.mark.parametrize("binary", [False, True])
async def test_the_header_is_json_or_binary(binary: bool, broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address, binary_header=binary) as producer:
        result = await producer.send(Message("T", b"x", properties={"ä": "ö"}))
        await producer.send_oneway(Message("T", b"y"))
    assert result.offset_message_id
    assert {command.serialize_type for command in broker.seen} == {codes.BINARY_TYPE if binary else codes.JSON_TYPE}
    (sent, _) = broker.requests(codes.SEND_MESSAGE_V2)
    assert "ä\x01ö" in sent.ext()["i"]
