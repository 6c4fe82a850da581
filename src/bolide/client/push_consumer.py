"""PushConsumer: messages come to a listener as they arrive (RocketMQ's DefaultMQPushConsumer).

"Push" is a long poll: a task per queue keeps one pull at the broker, which answers when something arrives. What was
pulled is counted against flow control until a listener is through with it, and only then its offset moves.
"""

from __future__ import annotations

import asyncio
import logging
import ssl as ssl_module
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bolide.client import broker_requests
from bolide.client.codec import CodecChoice, find_codec
from bolide.client.concurrent import ConcurrentConsumption
from bolide.client.errors import ClientStateError, ResponseError
from bolide.client.group_member import BROADCASTING, CLUSTERING, GroupMember, StartFrom, model_name
from bolide.client.hooks import RpcHook
from bolide.client.instance import ClientInstance, now_ms
from bolide.client.interceptor import Interceptor, around, close_all, start_all
from bolide.client.listener import BatchListener, Call, Listener
from bolide.client.locks import QueueLocks
from bolide.client.message import check_topic
from bolide.client.offset_store import BrokerOffsets, FileOffsets, OffsetStore
from bolide.client.options import DEFAULT_NAMESRV, ClientOptions
from bolide.client.orderly import OrderlyConsumption
from bolide.client.process_queue import MAX_CACHED_BYTES, MAX_CACHED_COUNT, MAX_SPAN, ProcessQueue
from bolide.client.producer import tracer
from bolide.client.pull import PullRequest, PullResult, PullStatus, pull
from bolide.client.queue import MessageQueue
from bolide.client.received import RETRY_PREFIX, ReceivedMessage, show_origin
from bolide.client.replies import send_reply
from bolide.client.send_back import DEFAULT_MAX_RECONSUME_TIMES
from bolide.client.strategies import Strategy, find_strategy
from bolide.client.subscription import Sql
from bolide.errors import BolideError
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response

log = logging.getLogger("bolide.client")

PULL_FAILED_PAUSE: Final = 3.0
FLOW_CONTROL_PAUSE: Final = 0.02
HAND_OVER: Final = 1.0
"""Seconds a queue that goes to another member waits for the listeners it is with; an orderly one waits longer."""
HAND_OVER_ORDERLY: Final = 20.0


class PushConsumer:
    """Consumes in a group. ``async with PushConsumer("group") as consumer: consumer.subscribe(topic, "*", listener)``

    `model` is ``"clustering"`` (the members share the queues) or ``"broadcasting"`` (each reads all); `start_from` says
    where a new group starts: ``"last"``, ``"first"``, or a time; `orderly` gives each queue's messages one after the
    other; `concurrency` bounds the listener calls at once. `max_reconsume_times` -1 means 16, for orderly no limit;
    a message a listener has for more than `consume_timeout` seconds is sent back to be tried again (not orderly).
    `max_cached_for_topic` and its bytes are shared by the queues held (Java's pullThresholdForTopic), -1 is off.
    """

    _closed = False
    _started_ms = 0
    _threads: ThreadPoolExecutor | None = None
    _consumption: ConcurrentConsumption | OrderlyConsumption | None = None

    def __init__(
        self,
        group: str,
        namesrv: str = DEFAULT_NAMESRV,
        *,
        model: str = "clustering",
        start_from: StartFrom = "last",
        orderly: bool = False,
        strategy: str | Strategy = "AVG",
        concurrency: int = 20,
        max_reconsume_times: int = -1,
        consume_timeout: float = 900.0,
        pull_batch: int = 32,
        max_cached: int = MAX_CACHED_COUNT,
        max_cached_bytes: int = MAX_CACHED_BYTES,
        max_span: int = MAX_SPAN,
        max_cached_for_topic: int = -1,
        max_cached_bytes_for_topic: int = -1,
        suspend: float = 15.0,
        orderly_pause: float = 1.0,
        send_subscription: bool = False,
        codec: CodecChoice = None,
        interceptors: tuple[Interceptor, ...] = (),
        trace: bool = False,
        offset_folder: Path | None = None,
        instance_name: str = "DEFAULT",
        client_id: str | None = None,
        access_key: str = "",
        secret_key: str = "",
        hooks: tuple[RpcHook, ...] = (),
        ssl: ssl_module.SSLContext | None = None,
    ) -> None:
        """Nothing is connected before `start`. Raises `ClientStateError` or `ConfigError` for what cannot be meant."""
        check_topic(group)
        model = model_name(model)
        self.group = group
        self.orderly = orderly
        self.concurrency = concurrency
        self.suspend = suspend
        self._pull_batch = pull_batch
        self._limits = (max_cached, max_cached_bytes, max_span, max_cached_for_topic, max_cached_bytes_for_topic)
        self._max_times = max_reconsume_times
        self._consume_timeout = consume_timeout
        self._orderly_pause = orderly_pause
        self._send_subscription = send_subscription
        self._offset_folder = offset_folder
        self._calls: dict[str, Call] = {}
        self._pulls: dict[ProcessQueue, asyncio.Task[None]] = {}
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._lock = asyncio.Lock()
        options = ClientOptions.of(
            namesrv,
            client_id=client_id,
            instance_name=instance_name,
            fixed_name=model == BROADCASTING,
            access_key=access_key,
            secret_key=secret_key,
            hooks=hooks,
            ssl=ssl,
        )
        if trace:
            interceptors = (*interceptors, tracer(f"{group}-CONSUME", options))
        self._interceptors = interceptors
        self._codec = find_codec(codec)
        self._member = self._make_member(options, model, start_from, find_strategy(strategy))
        self._locks = QueueLocks(self._member)

    def _make_member(self, options: ClientOptions, model: str, start: StartFrom, strategy: Strategy) -> GroupMember:
        return GroupMember(
            self.group,
            options,
            model,
            "CONSUME_PASSIVELY",
            start,
            strategy,
            self._gained,
            self._lost,
            self._serve,
            self.orderly,
        )

    # -- life

    def subscribe(
        self, topic: str, expression: str | Sql, listener: Listener | BatchListener, *, batch: int = 0
    ) -> None:
        """Want messages of a topic: ``"*"``, ``"TagA || TagB"``, or ``sql("a > 5")``.

        `listener` gets one message at a time, or with `batch` above 0 a list of up to so many of one queue. It may be
        async, or plain (then it runs in a thread). Returning nothing means consumed; False, `ConsumeResult.RETRY` or an
        exception means try again; a number says how many at the front of the list were consumed.
        """
        check_topic(topic)
        self._calls[topic] = Call(around(listener, batch, self.group, self._interceptors, self._codec), batch)
        self._member.subscribe(topic, expression)

    async def unsubscribe(self, topic: str) -> None:
        """Want a topic no more: its queues go to the other members."""
        self._calls.pop(topic, None)
        await self._member.unsubscribe(topic)

    async def start(self) -> Self:
        """Join the group; returns with the first share of queues held. A second call does nothing.

        Raises `ClientStateError` when closed, or when the group is in this client already.
        """
        async with self._lock:
            if self._closed:
                raise ClientStateError(f"consumer {self.group} is closed, make a new one")
            if self._threads is None:
                self._started_ms = now_ms()
                self._threads = ThreadPoolExecutor(self.concurrency, f"bolide-{self.group}")
                self._consumption = self._make_consumption(self._threads)
                try:
                    await start_all(self._interceptors)
                    await self._member.join(self._make_store)
                except BaseException:
                    await asyncio.shield(close_all(self._interceptors))
                    self._threads.shutdown(wait=False)
                    self._threads = self._consumption = None
                    raise
                if self.orderly:
                    self._member.instance.spawn(self._locks.refresh_always(), f"locks {self.group}")
        return self

    def _make_store(self, instance: ClientInstance) -> OffsetStore:
        if self._member.model == BROADCASTING:
            return FileOffsets(instance.client_id, self.group, self._offset_folder)
        return BrokerOffsets(instance, self.group)

    def _make_consumption(self, threads: ThreadPoolExecutor) -> ConcurrentConsumption | OrderlyConsumption:
        if self.orderly:
            return OrderlyConsumption(
                self._member,
                self._call_of,
                self.concurrency,
                self._max_times,
                threads,
                self._locks,
                self._orderly_pause,
            )
        limit = DEFAULT_MAX_RECONSUME_TIMES if self._max_times < 0 else self._max_times
        return ConcurrentConsumption(
            self._member, self._call_of, self.concurrency, limit, threads, self._consume_timeout
        )

    async def close(self) -> None:
        """Let the listeners that run finish, store all offsets, and leave the group. A second call does nothing."""
        self._closed = True
        async with self._lock:
            threads, self._threads = self._threads, None
            if threads is None:
                return
            await asyncio.shield(self._leave(threads))

    async def _leave(self, threads: ThreadPoolExecutor) -> None:
        for task in list(self._pulls.values()):
            task.cancel()
        if self._consumption is not None:
            await self._consumption.close()
        await close_all(self._interceptors)
        await self._member.leave()
        threads.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- looking and steering

    def assignment(self) -> list[MessageQueue]:
        """The queues held now, those of the retry topic left out."""
        return sorted(queue for queue in self._member.owned if not queue.topic.startswith(RETRY_PREFIX))

    @property
    def client_id(self) -> str:
        """Who we are to the brokers."""
        return self._member.options.client_id

    def committed(self, queue: MessageQueue) -> int:
        """The offset up to which a queue is consumed, -1 when not known here."""
        return self._member.store.get(queue)

    async def lag(self) -> dict[MessageQueue, int]:
        """How many messages each queue held has that are not consumed, by its broker now; retry queues included."""
        return await self._member.lag()

    async def reply_to(self, request: ReceivedMessage, body: bytes, timeout: float | None = None) -> None:
        """Answer a message that was sent by `Producer.request`.

        Raises `MessageRefused` when it was not, `ResponseError` when the one who asked is gone.
        """
        await send_reply(self._member.instance, self.group, request, body, now_ms(), timeout)

    def pause(self) -> None:
        """Pull no more until `resume`; what was pulled is still consumed."""
        self._resumed.clear()

    def resume(self) -> None:
        """Pull again."""
        self._resumed.set()

    async def commit(self) -> None:
        """Store the offsets now, and return when the brokers have answered."""
        await self._member.store.persist(list(self._member.owned), wait=True)

    # -- queues come and go

    async def _gained(self, process_queue: ProcessQueue) -> bool:
        try:
            if self.orderly and not await self._locks.lock(process_queue):
                return False
            process_queue.next_offset = await self._member.start_offset(process_queue.queue)
        except BaseException:
            if self.orderly:
                await self._locks.unlock(process_queue.queue)
            raise
        task = self._member.instance.spawn(self._pull_loop(process_queue), f"pull {process_queue.queue}")
        self._pulls[process_queue] = task
        task.add_done_callback(lambda done: self._pulls.pop(process_queue, None))
        return True

    async def _lost(self, process_queue: ProcessQueue) -> None:
        task = self._pulls.pop(process_queue, None)
        if task is not None:
            task.cancel()
        patience = HAND_OVER_ORDERLY if self.orderly else HAND_OVER
        try:
            async with asyncio.timeout(patience):
                await process_queue.wait_idle()
        except TimeoutError:
            log.warning("%s goes to another member while a listener still has messages of it", process_queue.queue)
        if self.orderly:
            await self._member.store.persist([process_queue.queue], wait=True)
            await self._locks.unlock(process_queue.queue)

    # -- pulling

    async def _pull_loop(self, process_queue: ProcessQueue) -> None:
        loop = asyncio.get_running_loop()
        while not process_queue.dropped:
            process_queue.limit(*self._limits, len(self._member.owned))
            await process_queue.wait_for_room()
            await self._resumed.wait()
            wanted = self._member.subscriptions.get(process_queue.queue.topic)
            if process_queue.dropped or wanted is None:
                return
            process_queue.last_pull = loop.time()
            request = PullRequest(
                self.group,
                process_queue.queue,
                process_queue.next_offset,
                wanted,
                self._pull_batch,
                self.suspend,
                self._member.store.get(process_queue.queue) if self._member.model == CLUSTERING else -1,
                process_queue.suggested_broker,
                send_subscription=self._send_subscription,
            )
            try:
                result = await pull(self._member.instance, request)
            except BolideError as error:
                await asyncio.sleep(self._pause_after(error, process_queue.queue))
                continue
            if not process_queue.dropped:
                await self._pulled(process_queue, result)

    def _pause_after(self, error: BolideError, queue: MessageQueue) -> float:
        if isinstance(error, ResponseError) and error.code == codes.FLOW_CONTROL:
            return FLOW_CONTROL_PAUSE
        log.warning("a pull of %s failed: %s", queue, error)
        return PULL_FAILED_PAUSE

    async def _pulled(self, process_queue: ProcessQueue, result: PullResult) -> None:
        process_queue.suggested_broker = result.suggested_broker
        process_queue.next_offset = result.next_offset
        if result.status is PullStatus.OFFSET_ILLEGAL:
            await self._restart(process_queue, result.next_offset)
        elif result.messages:
            if process_queue.queue.topic.startswith(RETRY_PREFIX):
                for message in result.messages:
                    show_origin(message)
            process_queue.add(result.messages)
            process_queue.last_consume = process_queue.last_pull
            assert self._consumption is not None
            self._consumption.put(process_queue, result.messages)
        elif process_queue.moved_to(result.next_offset):
            self._member.store.update(process_queue.queue, result.next_offset)

    async def _restart(self, process_queue: ProcessQueue, offset: int) -> None:
        """Read a queue anew from `offset`: drop it with all it holds, and let the next round take it again."""
        queue = process_queue.queue
        log.warning("%s is read anew from offset %d", queue, offset)
        process_queue.drop()
        self._member.owned.pop(queue, None)
        self._member.store.update(queue, offset)
        await self._member.store.persist([queue], wait=True)
        self._member.store.forget(queue)
        self._member.rebalance_soon()

    # -- requests of brokers

    def _call_of(self, message: ReceivedMessage) -> Call:
        call = self._calls.get(message.topic)
        if call is None:  # a retry of a topic that is not subscribed any more: any listener, as in Java
            call = next(iter(self._calls.values()))
        return call

    def _serve(self, command: Command) -> Command | Coroutine[Any, Any, Command | None] | None:
        if command.code == codes.RESET_CONSUMER_CLIENT_OFFSET:
            return self._reset(command)
        if command.code == codes.GET_CONSUMER_STATUS_FROM_CLIENT:
            return broker_requests.consumer_status(self._member, command)
        if command.code == codes.GET_CONSUMER_RUNNING_INFO:
            return broker_requests.running_info(self._member, command, self._started_ms, self.orderly, self.concurrency)
        if command.code == codes.CONSUME_MESSAGE_DIRECTLY and self._threads is not None:
            return broker_requests.consume_directly(command, self._call_of, self._threads, self.orderly)
        return make_response(command, codes.REQUEST_CODE_NOT_SUPPORTED, f"a consumer does not serve {command.code}")

    async def _reset(self, command: Command) -> Command | None:
        for queue, offset in broker_requests.reset_offsets_of(command).items():
            process_queue = self._member.owned.get(queue)
            if process_queue is not None:
                process_queue.drop()
                await process_queue.wait_idle()
                await self._restart(process_queue, offset)
        return make_response(command, codes.SUCCESS)
