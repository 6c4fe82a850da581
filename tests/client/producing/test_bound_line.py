"""Messages that are bound to a queue: which failures are repeated at that queue, and that retries keep the order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bolide.client import Message, MessageQueue, NoQueue, ResponseError, Retry, SendFailed, SendResult
from bolide.client.producing.bound_line import BoundLine
from bolide.errors import ConnectionLost, RequestTimeout
from bolide.layout.record import decode_records
from bolide.remoting import codes
from bolide.remoting.batch import decode_batch
from bolide.remoting.command import Command, make_response
from proof.kit.waiting import PATIENCE, until
from tests.client.patient import Producer
from tests.client.producing.holding_broker import SENDS
from tests.client.scripted_broker import Client, ScriptedBroker

Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)
BUSY = (codes.SYSTEM_BUSY, "busy")
FAST = Retry(backoff=0.001, max_backoff=0.01)


class Rejecting(ScriptedBroker):
    """Calls `verdict` with each send: True stores it, False rejects it, and None delays the response until `decide`."""

    def __init__(self, verdict: Callable[[list[bytes]], bool | None] = lambda bodies: True, queues: int = 2) -> None:
        super().__init__(queues=queues)
        self.verdict = verdict
        self.sends: list[list[bytes]] = []
        self.undecided: list[tuple[Client, Command]] = []
        self.code, self.remark = BUSY

    def handle(self, client: Client, command: Command) -> Command | None:
        if command.code not in SENDS:
            return super().handle(client, command)
        bodies = bodies_of(command)
        self.sends.append(bodies)
        stores = self.verdict(bodies)
        if stores is None:
            self.undecided.append((client, command))
            return None
        return super().handle(client, command) if stores else make_response(command, self.code, self.remark)

    def decide(self, stores: bool) -> None:
        """Send the delayed responses."""

        def work() -> None:
            held, self.undecided = self.undecided, []
            for client, command in held:
                answer = (
                    ScriptedBroker.handle(self, client, command)
                    if stores
                    else make_response(command, self.code, self.remark)
                )
                assert answer is not None
                client.write(answer)

        self.on_loop(work)

    def bodies(self, *queue_ids: int) -> list[bytes]:
        """The bodies of the stored messages of these queues."""
        return [decode_records(each)[0].body for queue_id in queue_ids for each in self.stored.get(("T", queue_id), [])]


def bodies_of(command: Command) -> list[bytes]:
    if command.code == codes.SEND_BATCH_MESSAGE:
        return [part.body for part in decode_batch(command.body)]
    return [command.body]


def keyed(*bodies: bytes) -> list[Message]:
    return [Message("T", body, sharding_key="k") for body in bodies]


@asynccontextmanager
async def served(broker: ScriptedBroker, **options: Any) -> AsyncIterator[Producer]:
    """A producer that has a connection. At its end nothing is in flight, and no line has a message."""
    async with asyncio.timeout(PATIENCE), Producer("P", broker.address, **options) as producer:
        await producer.send(Message("T", b"first"), queue=Q1)
        yield producer
        assert producer.in_flight == 0
        sender = producer._sender
        lines = [*sender.lines.values(), *sender.topic_lines.values()]
        assert all(not line.open and line.head is None and not line.waiting for line in lines)


def moved_master(broker: ScriptedBroker, producer: Producer, addresses: dict[str, str] | None) -> None:
    """Change the addresses in the route, and have the producer request it again."""
    broker.on_loop(lambda: setattr(broker, "addresses", addresses))
    instance = producer._sender.instance
    producer._sender.routes.forget(instance, "T")


@pytest.mark.parametrize("bound", ["key", "queue", "function"])
@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (codes.SYSTEM_BUSY, "busy"),
        (codes.SERVICE_NOT_AVAILABLE, "a slave"),
        (codes.SYSTEM_ERROR, "in-sync replicas not enough"),
    ],
)
async def test_a_rejected_message_is_retried_at_its_queue(code: int, remark: str, bound: str) -> None:
    left = [5]

    def verdict(bodies: list[bytes]) -> bool:
        left[0] -= bodies == [b"x"]
        return left[0] < 0 or bodies == [b"first"]

    choice: dict[str, Any] = {"key": {}, "queue": {"queue": Q0}, "function": {"queue": lambda queues, message: Q0}}
    with Rejecting(verdict) as broker:
        broker.code, broker.remark = code, remark
        async with served(broker) as producer:
            message = Message("T", b"x", sharding_key="k" if bound == "key" else "")
            result = await producer.send(message, **choice[bound])
        tries = broker.requests(codes.SEND_MESSAGE_V2)[1:]
        assert [each.ext()["e"] for each in tries] == 6 * [str(result.queue.queue_id)]


@pytest.mark.parametrize("bound", ["key", "queue"])
@pytest.mark.parametrize("away", [{"1": "127.0.0.1:1"}, {"0": "127.0.0.1:1"}])  # without a master; not listening
async def test_a_message_waits_for_the_master_of_its_queue(
    away: dict[str, str], bound: str, broker: ScriptedBroker
) -> None:
    async with served(broker, retry=Retry(max_backoff=0.1)) as producer:
        moved_master(broker, producer, away)
        choice = {"queue": Q0} if bound == "queue" else {}
        futures = [producer.submit(message, **choice) for message in keyed(b"1", b"2", b"3")]
        looks = len(broker.requests(codes.GET_ROUTEINFO_BY_TOPIC))
        await until(lambda: len(broker.requests(codes.GET_ROUTEINFO_BY_TOPIC)) > looks + 3, "several looks")
        broker.on_loop(lambda: setattr(broker, "addresses", None))
        results = await asyncio.gather(*futures)
        assert [result.queue_offset for result in results] == sorted(result.queue_offset for result in results)


async def test_messages_of_a_topic_without_a_route_get_their_queues_in_order(broker: ScriptedBroker) -> None:
    async with served(broker, retry=Retry(max_backoff=0.1)) as producer:
        topics = set(broker.topics)
        broker.on_loop(broker.topics.clear)
        producer._sender.routes.forget(producer._sender.instance, "T")
        futures = [producer.submit(message) for message in keyed(b"1", b"2")]
        await until(lambda: len(broker.requests(codes.GET_ROUTEINFO_BY_TOPIC)) > 8, "several looks")
        broker.on_loop(lambda: broker.topics.update(topics))
        futures += [producer.submit(message) for message in keyed(b"3", b"4")]
        results = await asyncio.gather(*futures)
        assert len({result.queue for result in results}) == 1
        assert [result.queue_offset for result in results] == sorted(result.queue_offset for result in results)


@pytest.mark.parametrize(("rejected", "auto_batch"), [(1, True), (2, True), (5, True), (20, False), (25, False)])
async def test_retries_keep_the_order_of_the_queue(rejected: int, auto_batch: bool) -> None:
    left = [rejected]

    def verdict(bodies: list[bytes]) -> bool:
        left[0] -= bodies != [b"first"]
        return left[0] < 0 or bodies == [b"first"]

    expected = [b"%d" % number for number in range(20)]
    with Rejecting(verdict) as broker:
        async with served(broker, auto_batch=auto_batch, retry=FAST) as producer:
            futures = []
            for number, message in enumerate(keyed(*expected)):
                futures.append(producer.submit(message))
                if number % 3 == 0:
                    await asyncio.sleep(0)
            await asyncio.gather(*futures)
        assert [body for body in broker.bodies(0, 1) if body != b"first"] == expected


async def test_an_oneway_message_waits_for_the_retry_of_an_earlier_message() -> None:
    stores = [False]
    with Rejecting(lambda bodies: stores[0] or bodies == [b"first"]) as broker:
        async with served(broker, retry=FAST) as producer:
            future = producer.submit(Message("T", b"1"), queue=Q0)
            await until(lambda: broker.sends.count([b"1"]) > 1, "a retry")
            oneway = asyncio.ensure_future(producer.send_oneway(Message("T", b"2"), queue=Q0))
            await until(lambda: broker.sends.count([b"1"]) > 4, "more retries")
            stores[0] = True
            await asyncio.gather(future, oneway)
            await until(lambda: broker.bodies(0) == [b"1", b"2"], "both messages")


async def test_a_message_fails_if_a_later_one_is_stored_already() -> None:
    with Rejecting(lambda bodies: None if bodies == [b"1"] else True) as broker:
        async with served(broker, auto_batch=False) as producer:
            first = producer.submit(Message("T", b"1"), queue=Q0)
            await producer.send(Message("T", b"2"), queue=Q0)
            broker.decide(False)
            with pytest.raises(ResponseError, match="busy"):
                await first
        assert broker.sends.count([b"1"]) == 1


@pytest.mark.parametrize("stored", [True, False])
async def test_a_retry_waits_for_the_outcome_of_later_messages_in_flight(stored: bool) -> None:
    verdicts: list[bool | None] = [True, False, None]
    with Rejecting(lambda bodies: verdicts.pop(0) if verdicts else True) as broker:
        async with served(broker, auto_batch=False, retry=FAST) as producer:
            first, second = [producer.submit(Message("T", body), queue=Q0) for body in (b"1", b"2")]
            line = producer._sender.lines[Q0]
            await until(lambda: bool(line.waiting) and bool(broker.undecided), "the rejection of the first")
            third = producer.submit(Message("T", b"3"), queue=Q0)
            broker.decide(stored)
            outcomes = await asyncio.gather(first, second, third, return_exceptions=True)
        assert [isinstance(outcome, SendResult) for outcome in outcomes] == [not stored, True, True]
        assert broker.bodies(0) == ([b"2", b"3"] if stored else [b"1", b"2", b"3"])


async def test_a_message_whose_response_was_lost_is_not_retried_and_fails_earlier_ones() -> None:
    verdicts: list[bool | None] = [True, None, None]
    with Rejecting(lambda bodies: verdicts.pop(0) if verdicts else True) as broker:
        async with served(broker, auto_batch=False, retry=FAST) as producer:
            first = producer.submit(Message("T", b"1"), queue=Q0)
            second = producer.submit(Message("T", b"2"), queue=Q0, timeout=0.3)
            await until(lambda: len(broker.undecided) == 2, "both requests")
            with pytest.raises(RequestTimeout):
                await second
            broker.decide(False)
            with pytest.raises(ResponseError, match="busy"):
                await first
            await producer.send(Message("T", b"3"), queue=Q0)
        assert broker.sends[1:] == [[b"1"], [b"2"], [b"3"]]


async def test_a_message_in_flight_on_a_lost_connection_is_not_retried() -> None:
    verdicts: list[bool | None] = [True, None]
    with Rejecting(lambda bodies: verdicts.pop(0) if verdicts else True) as broker:
        async with served(broker, retry=FAST) as producer:
            future = producer.submit(Message("T", b"1"), queue=Q0)
            await until(lambda: broker.undecided, "the request")
            broker.cut()
            with pytest.raises(ConnectionLost):
                await future
        assert broker.sends[1:] == [[b"1"]]


async def test_a_message_that_waits_for_an_earlier_one_has_its_own_deadline() -> None:
    stores = [False]
    with Rejecting(lambda bodies: stores[0] or bodies == [b"first"]) as broker:
        async with served(broker, retry=FAST) as producer:
            first = producer.submit(Message("T", b"1"), queue=Q0)
            await until(lambda: broker.sends.count([b"1"]) > 1, "a retry")
            with pytest.raises(RequestTimeout, match="an earlier message has no outcome yet"):
                await producer.send(Message("T", b"2"), queue=Q0, timeout=0.05)
            third = producer.submit(Message("T", b"3"), queue=Q0)
            third.cancel()
            fourth = producer.submit(Message("T", b"4"), queue=Q0)
            stores[0] = True
            await asyncio.gather(first, fourth)
        assert broker.bodies(0) == [b"1", b"4"]


async def test_a_queue_that_rejects_does_not_stop_other_queues() -> None:
    stores = [False]
    with Rejecting(lambda bodies: stores[0] or bodies != [b"1"]) as broker:
        async with served(broker, retry=FAST) as producer:
            first = producer.submit(Message("T", b"1"), queue=Q0)
            await until(lambda: broker.sends.count([b"1"]) > 1, "a retry")
            await producer.send(Message("T", b"2"), queue=Q1)
            await producer.send(Message("T", b"3"))  # not bound to a queue
            stores[0] = True
            await first


async def test_a_message_fails_at_its_deadline_with_the_last_reason() -> None:
    with Rejecting(lambda bodies: bodies == [b"first"]) as broker:
        async with served(broker) as producer:
            for timeout in (0.5, 5.0, 50.0):  # a stalled machine gets more time
                before = len(broker.sends)
                with pytest.raises((SendFailed, RequestTimeout)) as caught:
                    await producer.send(Message("T", b"x"), queue=Q0, timeout=timeout)
                tries = len(broker.sends) - before
                assert tries <= 14 + 2 * timeout
                if tries > 3 and isinstance(caught.value.__cause__, ResponseError):
                    break
            assert "the last time: the broker answered a message to T@broker-a:0 with SYSTEM_BUSY" in str(caught.value)


async def test_close_ends_messages_that_wait() -> None:
    with Rejecting(lambda bodies: bodies == [b"first"]) as broker:
        async with served(broker, timeout=0.3) as producer:
            futures = [producer.submit(message, queue=Q0) for message in keyed(b"1", b"2", b"3")]
            await until(lambda: len(broker.sends) > 1, "a rejection")
            await producer.close()
        assert all(isinstance(future.exception(), SendFailed | RequestTimeout | ResponseError) for future in futures)


async def test_send_many_keeps_the_order_of_a_queue_that_rejects() -> None:
    left = [4]

    def verdict(bodies: list[bytes]) -> bool:
        left[0] -= bodies != [b"first"]
        return left[0] < 0 or bodies == [b"first"]

    expected = [b"%d" % number for number in range(600)]
    with Rejecting(verdict) as broker:
        async with served(broker, retry=FAST) as producer:
            outcomes = await producer.send_many([Message("T", body) for body in expected], queue=Q0)
        assert all(isinstance(outcome, SendResult) for outcome in outcomes)
        assert broker.bodies(0) == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([True, True, False])), st.lists(st.integers(0, 3), min_size=2, max_size=25))
def test_whatever_is_rejected_stored_messages_are_in_order(rejections: Iterable[bool], turns: list[int]) -> None:
    verdicts = iter(rejections)

    async def main(broker: Rejecting) -> list[bytes]:
        bodies = [b"%d" % number for number in range(len(turns))]
        async with served(broker, retry=FAST) as producer:
            futures = []
            for body, pauses in zip(bodies, turns, strict=True):
                futures.append(producer.submit(Message("T", body, sharding_key="k")))
                for _ in range(pauses):
                    await asyncio.sleep(0)
            outcomes = await asyncio.gather(*futures, return_exceptions=True)
        return [body for body, outcome in zip(bodies, outcomes, strict=True) if isinstance(outcome, SendResult)]

    with Rejecting(lambda bodies: bodies == [b"first"] or next(verdicts, True), queues=2) as broker:
        succeeded = asyncio.run(main(broker))
        assert [body for body in broker.bodies(0, 1) if body != b"first"] == succeeded


class _Member:
    """A message of a line, for tests without a broker."""

    def __init__(self, number: int, failure: Exception | None) -> None:
        self.number, self.failure, self.deadline = number, failure, asyncio.get_running_loop().time() + PATIENCE
        self.timer: Any = None
        self.calls: list[str] = []

    def late(self) -> None: ...

    def start(self) -> None:
        self.calls.append("start")
        if self.failure is None:
            raise KeyboardInterrupt

    def try_again(self) -> None:
        self.calls.append("again")


async def test_an_interruption_loses_no_message_that_waits() -> None:
    line = BoundLine(asyncio.get_running_loop())
    first, second = _Member(1, None), _Member(2, NoQueue("away"))
    line.wait(second)
    line.wait(first)
    with pytest.raises(KeyboardInterrupt):
        line._proceed()
    assert line.waiting == [second]
    await until(lambda: second.calls, "the next message")
    second.timer.cancel()
