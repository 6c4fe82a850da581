"""Transactions from the producer's side: what it sends, when the local transaction runs, what a check is answered."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bolide.client import (
    ArgumentError,
    EndTransactionCall,
    Interceptor,
    Message,
    MessageRefused,
    ReceivedMessage,
    SendCall,
    SendStatus,
    TransactionState,
)
from bolide.layout.message_id import decode_offset_message_id
from bolide.layout.properties import parse_properties
from bolide.remoting import codes
from bolide.remoting.command import make_response
from bolide.testing.broker import Broker
from bolide.world.real import THE_WORLD
from proof.kit.waiting import PATIENCE, until
from tests.client.messages.escapes import ESCAPES
from tests.client.patient import PushConsumer, TransactionProducer
from tests.client.scripted_broker import ScriptedBroker
from tests.layout.records import record_bytes

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN


class Decides:
    """Answers as the argument says, and later as `then` says."""

    def __init__(self, then: TransactionState = UNKNOWN) -> None:
        self.then = then
        self.executed: list[tuple[bytes, Any]] = []
        self.checked: list[ReceivedMessage] = []

    async def execute(self, message: Message, argument: Any) -> TransactionState | None:
        self.executed.append((message.body, argument))
        if isinstance(argument, Exception):
            raise argument
        return argument  # type: ignore[no-any-return] # the tests pass states, and other things

    async def check(self, message: ReceivedMessage) -> TransactionState:
        self.checked.append(message)
        return self.then


class Plain:
    """A listener of plain functions."""

    def __init__(self) -> None:
        self.threads: set[str] = set()

    def execute(self, message: Message, argument: Any) -> TransactionState:
        self.threads.add(threading.current_thread().name)
        return COMMIT

    def check(self, message: ReceivedMessage) -> TransactionState:
        return UNKNOWN


OUTCOMES = [
    (COMMIT, 8, None),
    (ROLLBACK, 12, None),
    (UNKNOWN, 0, None),
    (None, 0, TypeError),
    ("yes", 0, TypeError),
    (ValueError("no money"), 0, ValueError),
]


@pytest.mark.parametrize(("outcome", "number", "error"), OUTCOMES)
async def test_the_broker_is_told_how_it_ended(
    outcome: Any, number: int, error: type[Exception] | None, broker: ScriptedBroker
) -> None:
    listener = Decides()
    async with TransactionProducer("P", broker.address, listener) as producer:
        result = await producer.send_in_transaction(Message("T", b"body", keys="k"), outcome)
        await until(lambda: broker.requests(codes.END_TRANSACTION), "the end of the transaction")
    (send,) = broker.requests(codes.SEND_MESSAGE_V2)
    properties = parse_properties(send.ext()["i"])
    assert (properties["TRAN_MSG"], properties["PGROUP"], properties["KEYS"]) == ("true", "P", "k")
    assert send.ext()["f"] == "4"
    assert listener.executed == [(b"body", outcome)]
    assert int(result.state) == number
    assert result.error is None if error is None else isinstance(result.error, error)
    (end,) = broker.requests(codes.END_TRANSACTION)
    assert end.is_oneway
    assert end.ext() == {
        "producerGroup": "P",
        "tranStateTableOffset": str(result.sent.queue_offset),
        "commitLogOffset": str(decode_offset_message_id(result.sent.offset_message_id)[2]),
        "commitOrRollback": str(number),
        "fromTransactionCheck": "false",
        "msgId": result.sent.message_id,
        "transactionId": result.sent.transaction_id or result.sent.message_id,
        "topic": "T",
        "bname": "broker-a",
    }


@pytest.mark.parametrize("code", [codes.FLUSH_DISK_TIMEOUT, codes.SLAVE_NOT_AVAILABLE, codes.FLUSH_SLAVE_TIMEOUT])
async def test_unsafe_half_message_is_rolled_back_without_executing(code: int, broker: ScriptedBroker) -> None:
    listener = Decides()
    fields = {"msgId": "7F00000100002A9F0000000000000010", "queueId": "0", "queueOffset": "3"}
    broker.script[codes.SEND_MESSAGE_V2] = lambda command: make_response(command, code, ext=fields)
    async with TransactionProducer("P", broker.address, listener) as producer:
        result = await producer.send_in_transaction(Message("T", b"body"), COMMIT)
        await until(lambda: broker.requests(codes.END_TRANSACTION), "the end of the transaction")
    assert (result.state, result.sent.status) == (ROLLBACK, SendStatus(code))
    assert listener.executed == []
    assert broker.requests(codes.END_TRANSACTION)[0].ext()["commitOrRollback"] == "12"


async def test_a_plain_listener_runs_in_a_thread_and_a_delay_is_refused(broker: ScriptedBroker) -> None:
    listener = Plain()
    async with TransactionProducer("P", broker.address, listener) as producer:
        with pytest.raises(MessageRefused, match="delay"):
            await producer.send_in_transaction(Message("T", b"body", delay_level=1))
        assert (await producer.send_in_transaction(Message("T", b"body"))).state is COMMIT
    assert listener.threads and threading.current_thread().name not in listener.threads


class Watches(Interceptor):
    """Notes the ends of transactions."""

    def __init__(self) -> None:
        self.ends: list[EndTransactionCall] = []

    def before_send(self, call: SendCall) -> None:
        call.message = replace(call.message, properties={**call.message.properties, "seen": "yes"})

    def after_end_transaction(self, call: EndTransactionCall) -> None:
        self.ends.append(call)
        raise ValueError("scripted")


async def test_codecs_and_interceptors_work_as_in_a_producer(broker: ScriptedBroker) -> None:
    listener, watch = Decides(), Watches()
    async with TransactionProducer("P", broker.address, listener, codec="json", interceptors=(watch,)) as producer:
        message = Message("T", value={"a": 1}, tags="A", keys=["k1", "k2"])
        result = await producer.send_in_transaction(message, COMMIT)
        broker.ask_all(codes.CHECK_TRANSACTION_STATE, {"tranStateTableOffset": "0"}, half_message("P", b"[1, 2]"))
        await until(lambda: len(watch.ends) == 2, "the end of both")
    assert listener.checked[0].value == [1, 2]
    first, second = watch.ends
    assert (first.group, first.topic, first.tags, first.keys) == ("P", "T", "A", "k1 k2")
    assert (first.message_id, first.state, first.from_check) == (result.sent.message_id, COMMIT, False)
    assert first.broker_address == broker.address
    assert (second.message_id, second.state, second.from_check) == ("U", UNKNOWN, True)
    (sent,) = broker.requests(codes.SEND_MESSAGE_V2)
    assert (sent.body, parse_properties(sent.ext()["i"])["seen"]) == (b'{"a":1}', "yes")


async def test_methods_that_return_an_awaitable_are_awaited(broker: ScriptedBroker) -> None:
    """A decorator's plain wrapper around an async method, for example."""
    inner = Decides(then=COMMIT)

    class Wraps:
        def execute(self, message: Message, argument: Any) -> Any:
            return inner.execute(message, argument)

        def check(self, message: ReceivedMessage) -> Any:
            return inner.check(message)

    async with TransactionProducer("P", broker.address, Wraps()) as producer:
        result = await producer.send_in_transaction(Message("T", b"x"), COMMIT)
    assert (result.state, inner.executed) == (COMMIT, [(b"x", COMMIT)])


async def test_a_method_may_return_the_future_of_an_executor(broker: ScriptedBroker) -> None:
    class Submits:
        def execute(self, message: Message, argument: Any) -> Any:
            return pool.submit(lambda: COMMIT)

        def check(self, message: ReceivedMessage) -> Any:
            return pool.submit(lambda: COMMIT)

    with THE_WORLD.pool(1, "theirs") as pool:
        async with TransactionProducer("P", broker.address, Submits()) as producer:
            assert (await producer.send_in_transaction(Message("T", b"x"))).state is COMMIT


class Raises:
    """A listener that raises `kind`: within the call, or in the future that it returns."""

    def __init__(self, kind: type[BaseException], pool: Executor | None = None) -> None:
        self.kind, self.pool = kind, pool

    def fail(self) -> Any:
        raise self.kind

    def execute(self, message: Message, argument: Any) -> Any:
        return self.fail() if self.pool is None else self.pool.submit(self.fail)

    def check(self, message: ReceivedMessage) -> Any:
        return self.execute(Message("T", b"x"), None)


class AsyncRaises(Raises):
    async def execute(self, message: Message, argument: Any) -> Any:
        self.fail()

    async def check(self, message: ReceivedMessage) -> Any:
        self.fail()


@pytest.mark.parametrize("kind", ESCAPES)
@pytest.mark.parametrize("style", ["plain", "future", "async"])
async def test_whatever_a_transaction_listener_raises_is_an_unknown_state(
    style: str, kind: type[BaseException], broker: ScriptedBroker
) -> None:
    with THE_WORLD.pool(1, "theirs") as pool:
        listener = AsyncRaises(kind) if style == "async" else Raises(kind, pool if style == "future" else None)
        async with asyncio.timeout(PATIENCE), TransactionProducer("P", broker.address, listener) as producer:
            result = await producer.send_in_transaction(Message("T", b"x"))
            assert result.state is UNKNOWN
            assert result.error is not None
            broker.ask_all(codes.CHECK_TRANSACTION_STATE, {"tranStateTableOffset": "0"}, half_message("P"))
            await until(lambda: len(broker.requests(codes.END_TRANSACTION)) == 2, "the answer to the check")


async def test_a_check_may_close_its_producer(broker: ScriptedBroker) -> None:
    closed: list[bool] = []

    class Leaves(Decides):
        async def check(self, message: ReceivedMessage) -> TransactionState:
            await producer.close()
            closed.append(True)
            return COMMIT

    producer = TransactionProducer("P", broker.address, Leaves())
    await producer.start()
    await producer.send_in_transaction(Message("T", b"body"), UNKNOWN)
    broker.ask_all(codes.CHECK_TRANSACTION_STATE, {"tranStateTableOffset": "0"}, half_message("P"))
    await until(lambda: closed, "the check to continue")
    await producer.close()


def test_a_listener_is_needed() -> None:
    with pytest.raises(ArgumentError, match="listener"):
        TransactionProducer("P", "127.0.0.1:1")


def half_message(group: str, body: bytes = b"body") -> bytes:
    """What a broker shows of a half message when it asks."""
    text = f"PGROUP\x01{group}\x02UNIQ_KEY\x01U\x02".encode()
    return record_bytes("T", body, text)


async def test_a_check_of_another_group_is_not_answered(broker: ScriptedBroker) -> None:
    listener = Decides()
    async with TransactionProducer("P", broker.address, listener) as producer:
        await producer.send_in_transaction(Message("T", b"body"), UNKNOWN)
        for body in (b"no message", half_message("other"), half_message("P")):
            broker.ask_all(codes.CHECK_TRANSACTION_STATE, {"tranStateTableOffset": "0"}, body)
        await until(lambda: listener.checked, "the check of this group")
        await producer.send_in_transaction(Message("T", b"body"), UNKNOWN)
    assert [message.get_property("PGROUP") for message in listener.checked] == ["P"]
    assert len(broker.requests(codes.END_TRANSACTION)) == 3


async def test_check_with_a_damaged_message_is_logged_and_not_answered(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Decides()
    damaged = half_message("P").replace(b"body", b"Body")
    async with TransactionProducer("P", broker.address, listener) as producer:
        await producer.send_in_transaction(Message("T", b"body"), COMMIT)
        for body in (damaged, half_message("P")):
            broker.ask_all(codes.CHECK_TRANSACTION_STATE, {"tranStateTableOffset": "0"}, body)
        await until(lambda: listener.checked, "the check of the intact message")
    assert [message.body for message in listener.checked] == [b"body"]
    assert "a message is damaged, its body does not match its CRC (queue T:" in caplog.text


async def test_a_producer_that_sends_nothing_is_asked(tmp_path: Path) -> None:
    """Its process took over from one that is gone, and knows no topic."""
    listener, gone = Decides(then=COMMIT), Decides(then=UNKNOWN)
    asks = {"transaction_check_interval": 200, "transaction_time_out": 100, "transaction_check_max": 1_000_000}
    with Broker(str(tmp_path), auto_create_topic_enable=False, **asks) as broker:
        broker.create_topic("T")
        async with TransactionProducer("P", broker.namesrv_addr, gone, client_id="first") as producer:
            await producer.send_in_transaction(Message("T", b"lost"), UNKNOWN)
        async with TransactionProducer("P", broker.namesrv_addr, listener, client_id="second") as second:
            await until(lambda: listener.checked, "a check")
            await second._sender.instance.refresh_routes()
            assert second._sender.instance.brokers, "the refresh of routes keeps brokers that no route names"
    assert listener.checked[0].body == b"lost"


async def test_a_start_without_a_name_server_does_not_wait_for_one() -> None:
    async with TransactionProducer("P", "127.0.0.1:1", Decides(then=COMMIT)) as producer:
        await producer._sender.instance.refresh_routes()


async def test_against_a_broker_that_asks(tmp_path: Path) -> None:
    """Commit, rollback, and two that stay unknown until the broker asks: what consumers see of it.

    It asks once it has come back, as often as it takes: beside a slow machine's first sends it would ask too early.
    """
    listener = Decides(then=COMMIT)
    got: list[ReceivedMessage] = []

    async def take(message: ReceivedMessage) -> None:
        got.append(message)

    with Broker(str(tmp_path), transaction_check_interval=3_600_000) as broker:
        async with TransactionProducer("P", broker.namesrv_addr, listener) as producer:
            for body, state in ((b"a", COMMIT), (b"b", ROLLBACK), (b"c", UNKNOWN), (b"d", None)):
                result = await producer.send_in_transaction(Message("T", body, tags="t"), state)
                assert result.sent.status is SendStatus.SEND_OK
        assert listener.checked == []
    asks = {"transaction_check_interval": 200, "transaction_time_out": 100, "transaction_check_max": 1_000_000}
    with Broker(str(tmp_path), **asks) as broker:
        consumer = PushConsumer("C", broker.namesrv_addr, start_from="first")
        consumer.subscribe("T", "t", take)
        async with TransactionProducer("P", broker.namesrv_addr, listener), consumer:
            await until(lambda: len(got) == 3, "three messages")
    assert sorted(message.body for message in got) == [b"a", b"c", b"d"]
    assert {message.body for message in listener.checked} == {b"c", b"d"}
    assert all(message.topic == "T" and message.tags == "t" for message in listener.checked)
    assert all(message.transaction_id == message.message_id for message in got)
