"""The blocking façade: the native client's behaviour without async, its loop thread, and fork."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading

import pytest

from bolide import client
from bolide.client import (
    ClientStateError,
    Message,
    MessageQueue,
    MessageRefused,
    ReceivedMessage,
    Retry,
    SendFailed,
    SendStatus,
    TooFast,
    TopicNotFound,
    TransactionState,
    blocking,
)
from bolide.client.instance.loop_thread import loop_thread
from bolide.client.messages.hooks import RpcCall
from bolide.errors import ConnectionLost
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.testing.broker import Broker
from proof.kit.waiting import PATIENCE, PROCESS_PATIENCE, wait_until
from tests.client.messages.escapes import ESCAPES
from tests.client.patient_blocking import Producer, PullConsumer, PushConsumer, TransactionProducer
from tests.client.scripted_broker import ScriptedBroker


@pytest.mark.parametrize("name", ["Producer", "TransactionProducer", "PushConsumer", "PullConsumer"])
def test_the_facade_has_the_names_arguments_and_docstrings_of_the_native_class(name: str) -> None:
    native, facade = getattr(client, name), getattr(blocking, name)
    public = {item for item in vars(native) if not item.startswith("_")}
    assert public <= set(vars(facade))
    for item in public:
        there, here = vars(native)[item], vars(facade)[item]
        assert (there.__doc__ is None) == (here.__doc__ is None)
        if not isinstance(there, property):
            assert list(inspect.signature(there).parameters) == list(inspect.signature(here).parameters)


def test_sending_in_every_way() -> None:
    with ScriptedBroker() as broker, Producer("P", broker.address) as producer:
        assert producer.group == "P"
        assert producer.send(Message("T", b"1")).status is SendStatus.SEND_OK
        assert producer.submit(Message("T", b"2")).result(PATIENCE).status is SendStatus.SEND_OK
        results = producer.send_many(Message("T", b"%d" % number) for number in range(100))
        assert not any(isinstance(result, BaseException) for result in results)
        assert producer.send_batch([Message("T", b"a"), Message("T", b"b")]).queue.topic == "T"
        producer.send_oneway(Message("T", b"3"))
        assert producer.queues("T") == [MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)]
        broker.topics.discard("TBW102")
        with pytest.raises(TopicNotFound):
            producer.send(Message("Unknown", b"x"))
        assert producer.start() is producer


def test_too_fast_is_in_the_future() -> None:
    with (
        ScriptedBroker() as broker,
        Producer("P", broker.address, max_in_flight=1, retry=Retry(attempts=1)) as producer,
    ):
        producer.send(Message("T", b"x"))
        broker.script[codes.SEND_MESSAGE_V2] = lambda command: None
        futures = [producer.submit(Message("T", b"x")) for _ in range(2)]
        assert isinstance(futures[1].exception(60), TooFast)
        wait_until(lambda: len(broker.requests(codes.SEND_MESSAGE_V2)) == 2, "the first, which is not answered")
        assert not futures[0].done()
        broker.cut()
        assert isinstance(futures[0].exception(60), ConnectionLost)


def test_consuming_while_the_caller_does_something_else() -> None:
    seen: list[bytes] = []
    with ScriptedBroker() as broker:
        consumer = PushConsumer("G", broker.address, start_from="first", suspend=0.5)
        consumer.subscribe("T", "*", lambda messages: seen.extend(message.body for message in messages), batch=8)
        with consumer:
            assert len(consumer.assignment()) == 2
            broker.on_loop(lambda: [broker.store("T", number % 2, b"%d" % number, "") for number in range(50)])
            wait_until(lambda: len(seen) == 50, "50 messages")
        assert broker.offsets["G", "T", 0] == 25
        with pytest.raises(ClientStateError, match="closed"):
            consumer.start()


def test_pulling_with_a_plain_for() -> None:
    seen = []
    with ScriptedBroker() as broker:
        broker.on_loop(lambda: [broker.store("T", number % 2, b"%d" % number, "") for number in range(10)])
        with PullConsumer("G", broker.address, start_from="first", suspend=0.5) as consumer:
            consumer.subscribe("T")
            for message in consumer:
                seen.append(message.body)
                if len(seen) == 10:
                    break
            queue = consumer.assignment()[0]
            consumer.seek_to_begin([queue])
            assert consumer.poll()[0].queue_offset == 0
            assert consumer.end_offset(queue) == 5
    assert sorted(seen, key=int) == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("kind", [*ESCAPES, KeyboardInterrupt])
@pytest.mark.parametrize("style", ["plain", "async"])
def test_whatever_a_listener_raises_fails_its_message_alone(
    kind: type[BaseException], style: str, broker: ScriptedBroker
) -> None:
    seen: list[bytes] = []

    def plain(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if message.body == b"bad":
            raise kind

    async def listen(message: ReceivedMessage) -> None:
        plain(message)

    consumer = PushConsumer("G", broker.address, start_from="first", suspend=0.5)
    consumer.subscribe("T", "*", plain if style == "plain" else listen)
    with consumer:
        broker.on_loop(lambda: [broker.store("T", 0, body, "") for body in (b"bad", b"good")])
        wait_until(lambda: b"good" in seen, "the next message")
        wait_until(lambda: broker.requests(codes.CONSUMER_SEND_MSG_BACK), "the failed one to be sent back")
    assert broker.offsets["G", "T", 0] == 2


class _Raises:
    """A hook of the user that raises `kind` before each send."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def before(self, call: RpcCall) -> None:
        if call.code == codes.SEND_MESSAGE_V2:
            raise self.kind

    def after(self, call: RpcCall, answer: Command) -> None: ...


@pytest.mark.parametrize("kind", [*ESCAPES, KeyboardInterrupt])
def test_whatever_a_selector_or_a_hook_raises_fails_its_send_alone(
    kind: type[BaseException], broker: ScriptedBroker
) -> None:
    def select(queues: list[MessageQueue], message: Message) -> MessageQueue:
        raise kind

    with Producer("P", broker.address) as producer:
        with pytest.raises(MessageRefused, match="the function that picks the queue"):
            producer.send(Message("T", b"x"), queue=select)
        assert producer.send(Message("T", b"x")).status is SendStatus.SEND_OK
    with Producer("Q", broker.address, hooks=(_Raises(kind),)) as producer, pytest.raises(SendFailed):
        producer.send(Message("T", b"x"))


def test_the_loop_outlives_what_runs_on_it(broker: ScriptedBroker) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        loop_thread().run(leave)
    with Producer("P", broker.address) as producer:
        assert producer.send(Message("T", b"x")).status is SendStatus.SEND_OK


def test_a_call_from_the_loop_itself_is_refused_and_not_a_deadlock() -> None:
    failures: list[BaseException] = []
    with ScriptedBroker() as broker, Producer("P", broker.address) as producer:

        async def listener(message: object) -> None:
            try:
                producer.send(Message("T", b"x"))
            except ClientStateError as error:
                failures.append(error)

        consumer = PushConsumer("G", broker.address, start_from="first", suspend=0.5)
        consumer.subscribe("T", "*", listener)
        with consumer:
            broker.on_loop(lambda: broker.store("T", 0, b"x", ""))
            wait_until(lambda: failures, "the refusal")
    assert "native client" in str(failures[0])


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")  # forking beside threads is what this is about
from bolide.client import ClientForked, Message
from bolide.client.blocking import Producer
producer = Producer("P", sys.argv[1]).start()
producer.send(Message("T", b"parent"))
child = os.fork()
if child == 0:
    try:
        producer.send(Message("T", b"x"))
    except ClientForked as error:
        with Producer("P", sys.argv[1]) as own:
            own.send(Message("T", b"child"))
        os._exit(7 if str(os.getppid()) in str(error) else 8)
    os._exit(9)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
producer.send(Message("T", b"parent again"))
producer.close()
sys.exit(code)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_gets_one_clear_error_and_may_start_its_own() -> None:
    with ScriptedBroker() as broker:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        found = subprocess.run(
            [sys.executable, "-c", FORK, broker.address],
            env=environ,
            capture_output=True,
            text=True,
            timeout=PROCESS_PATIENCE,
            check=False,
        )
        assert (found.returncode, found.stderr) == (7, "")
        bodies = [command.body for command in broker.requests(codes.SEND_MESSAGE_V2)]
        assert sorted(bodies) == [b"child", b"parent", b"parent again"]


def test_blocking_clients_share_one_thread() -> None:
    with ScriptedBroker() as broker, Producer("P", broker.address), Producer("Q", broker.address):
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("bolide-client") == 1


class AllIsWell:
    """A transaction listener of plain functions."""

    def execute(self, message: Message, argument: object) -> TransactionState:
        return TransactionState.COMMIT if argument else TransactionState.ROLLBACK

    def check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.UNKNOWN


def test_transactions_and_requests_block() -> None:
    with Broker() as broker:
        consumer = PushConsumer("C", broker.namesrv_addr, start_from="first", instance_name="other")
        consumer.subscribe("T", "*", lambda message: consumer.reply_to(message, message.body[::-1]))
        with consumer, TransactionProducer("P", broker.namesrv_addr, AllIsWell()) as producer:
            assert producer.request(Message("T", b"abc"), 60).body == b"cba"
            assert producer.send_in_transaction(Message("U", b"x"), False).state is TransactionState.ROLLBACK
            assert producer.send_in_transaction(Message("U", b"x"), True).state is TransactionState.COMMIT


LEAVES = """
import os, sys, warnings
warnings.simplefilter("ignore")  # forking beside threads is what this is about
from bolide.client import Message
from bolide.client.blocking import Producer, PullConsumer
with Producer("P", sys.argv[1]) as producer, PullConsumer("G", sys.argv[1]) as consumer:
    consumer.subscribe("T")
    child = os.fork()
    if child == 0:
        sys.exit(7)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    producer.send(Message("T", b"parent"))
sys.exit(code)
"""

NATIVE_LEAVES = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore")
from bolide.client import Message, Producer, PushConsumer

async def main():
    consumer = PushConsumer("G", sys.argv[1])
    consumer.subscribe("T", "*", print)
    async with Producer("P", sys.argv[1]) as producer, consumer:
        child = os.fork()
        if child == 0:
            try:
                await producer.close()
                await consumer.close()
            finally:
                os._exit(7)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        await producer.send(Message("T", b"parent"))
    sys.exit(code)

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("program", [LEAVES, NATIVE_LEAVES], ids=["blocking", "native"])
def test_forked_child_leaves_the_clients_of_its_parent_alone(program: str) -> None:
    with ScriptedBroker() as broker:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        found = subprocess.run(
            [sys.executable, "-c", program, broker.address],
            env=environ,
            capture_output=True,
            text=True,
            timeout=PROCESS_PATIENCE,
            check=False,
        )
        assert (found.returncode, found.stderr) == (7, "")
        groups = [sorted(command.ext().items()) for command in broker.requests(codes.UNREGISTER_CLIENT)]
        assert len(groups) == 2, "the child has left a group of its parent"
