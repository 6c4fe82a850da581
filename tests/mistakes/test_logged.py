"""What a new user gets wrong, and what the log says: once, and without a traceback that shows none of their lines."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from bolide.client import Message, ReceivedMessage, TransactionState, blocking
from bolide.testing.broker import Broker
from proof.kit.waiting import PATIENCE, until
from tests.client.patient import Admin, Producer, PullConsumer, PushConsumer, TransactionProducer

NOBODY = "127.0.0.1:1"


def said(caplog: pytest.LogCaptureFixture, level: int, text: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno == level and text in record.getMessage()]


@pytest.mark.parametrize("kind", [PushConsumer, PullConsumer])
async def test_a_consumer_that_reaches_nobody_says_so_once_and_backs_off(
    kind: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "bolide.client")

    def said_at() -> list[float]:
        return [
            record.created for record in caplog.records if "the name server cannot be reached" in record.getMessage()
        ]

    consumer = kind("G", NOBODY)
    consumer.subscribe("T", "*", *([] if kind is PullConsumer else [print]))
    async with consumer:
        await until(lambda: said_at()[-1] - said_at()[0] > 1.5, "more tries")
    (warning,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert warning.getMessage() == (
        "the name server cannot be reached: cannot connect to 127.0.0.1:1: connection refused;"
        " it is tried again, and this is logged once"
    )
    assert max(after - before for before, after in pairwise(said_at())) > 1.5, "the pauses double from a second"


async def test_a_consumer_without_a_subscription_says_so(
    bolide_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with PushConsumer("G", bolide_broker.namesrv_addr):
        await until(lambda: said(caplog, logging.WARNING, "consumer G has no subscription"), "a warning")


async def test_a_topic_that_is_not_there_is_named_once(bolide_broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "bolide.client")
    seen: list[bytes] = []
    consumer = PushConsumer("G", bolide_broker.namesrv_addr, start_from="first")
    consumer.subscribe("Later", "*", lambda message: seen.append(message.body))
    async with consumer, Producer("P", bolide_broker.namesrv_addr) as producer:
        await until(lambda: said(caplog, logging.DEBUG, "group G waits"), "a second look")
        await producer.send(Message("Later", b"x"))
        await until(lambda: seen, "the message")
    (warning,) = said(caplog, logging.WARNING, "group G waits")
    assert "create the topic, or set autoCreateTopicEnable=true" in warning.getMessage()
    assert said(caplog, logging.INFO, "over: group G waits")


async def test_a_body_that_does_not_fit_is_one_line(bolide_broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    bolide_broker.create_topic("T", queues=1)

    def read(message: ReceivedMessage) -> None:
        assert message.value

    consumer = PushConsumer("G", bolide_broker.namesrv_addr, start_from="first", codec="json")
    consumer.subscribe("T", "*", read)
    async with consumer, Producer("P", bolide_broker.namesrv_addr) as producer:
        await producer.send(Message("T", b"no JSON"))
        await until(lambda: said(caplog, logging.WARNING, "a listener failed"), "a warning")
    record = said(caplog, logging.WARNING, "a listener failed")[0]
    text = record.getMessage()
    start = "a listener failed: JsonCodec() cannot decode the body of <ReceivedMessage T@"
    assert text.startswith(start) and text.count("ReceivedMessage") == 1
    assert ": JSON is malformed" in text
    assert record.exc_info is None and "\n" not in text


class ReturnsNothing:
    """A listener that forgets its return statements."""

    def execute(self, message: Message, argument: Any) -> TransactionState:
        """Return None, as a function without a return does."""
        forgotten: Any = None
        return forgotten  # type: ignore[no-any-return]  # the mistake under test

    def check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.ROLLBACK


async def test_a_transaction_that_returns_nothing_says_why(
    bolide_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with TransactionProducer("P", bolide_broker.namesrv_addr, ReturnsNothing()) as producer:
        result = await producer.send_in_transaction(Message("T", b"x"))
        assert result.state is TransactionState.UNKNOWN
        why = "the listener returned None: return TransactionState.COMMIT, ROLLBACK or UNKNOWN"
        assert str(result.error) == why
        (record,) = said(caplog, logging.WARNING, why)
        assert record.exc_info is None and "the broker will check again" in record.getMessage()


CLIENTS: list[tuple[Callable[[str], Any], str]] = [
    (lambda address: Producer("P", address), "Unclosed Producer of group P: close it"),
    (lambda address: PushConsumer("G", address), "Unclosed PushConsumer of group G: close it"),
    (lambda address: PullConsumer("G", address), "Unclosed PullConsumer of group G: close it"),
    (lambda address: Admin(address), "Unclosed Admin: close it"),
]


def abandon(make: Callable[[str], Any], address: str) -> None:
    """Start a client, end its loop as `asyncio.run` does, and forget both."""

    async def main() -> None:
        await make(address).start()
        async with make(address.replace("127.0.0.1", "localhost")):
            pass  # of one that was closed, nothing is said

    asyncio.run(main())
    gc.collect()


@pytest.mark.parametrize(("make", "text"), CLIENTS)
def test_an_unclosed_client_is_warned_of(make: Callable[[str], Any], text: str, bolide_broker: Broker) -> None:
    with pytest.warns(ResourceWarning, match=f"^{text}") as warned:
        abandon(make, bolide_broker.namesrv_addr)
    assert len([warning for warning in warned if str(warning.message).startswith(text)]) == 1


def test_an_unclosed_blocking_client_is_warned_of_at_once(bolide_broker: Broker) -> None:
    natives = []

    def forget() -> None:
        producer = blocking.Producer("P", bolide_broker.namesrv_addr).start()
        natives.append(producer._native)
        del producer
        gc.collect()

    with pytest.warns(ResourceWarning, match="^Unclosed Producer of group P"):
        forget()
    asyncio.run_coroutine_threadsafe(natives[0].close(), natives[0]._sender.loop).result(PATIENCE)
