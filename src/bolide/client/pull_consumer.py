"""PullConsumer: the caller asks for messages when it wants them (RocketMQ's DefaultLitePullConsumer).

Queues come from the group (`subscribe`) or from the caller (`assign`). Messages are fetched ahead in the background;
what `poll` returned counts as consumed with the next `poll` (or with `commit`, when `auto_commit` is off).
"""

from __future__ import annotations

import asyncio
import logging
import ssl as ssl_module
from collections.abc import AsyncIterator, Coroutine, Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from bolide.client import broker_requests
from bolide.client.codec import CodecChoice, find_codec
from bolide.client.errors import ClientStateError
from bolide.client.group_member import BROADCASTING, GroupMember, StartFrom, model_name, timestamp_ms
from bolide.client.hooks import RpcHook
from bolide.client.instance import now_ms
from bolide.client.message import check_topic
from bolide.client.offset_store import BrokerOffsets, FileOffsets
from bolide.client.options import DEFAULT_NAMESRV, ClientOptions
from bolide.client.process_queue import MAX_CACHED_BYTES, MAX_CACHED_COUNT, ProcessQueue
from bolide.client.pull import PullRequest, PullResult, PullStatus, pull
from bolide.client.queue import MessageQueue
from bolide.client.received import ReceivedMessage
from bolide.client.strategies import Strategy, find_strategy
from bolide.client.subscription import Sql, Subscription, subscription
from bolide.errors import BolideError
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response

log = logging.getLogger("bolide.client")

PULL_FAILED_PAUSE: Final = 1.0


class PullConsumer:
    """Consumes by asking. ``async with PullConsumer("group") as consumer: async for message in consumer: ...``

    With `auto_commit` what `poll` returned is consumed when the next poll begins, and stored every 5 s; without, only
    `commit` moves the group's offsets. `start_from` is for a group without offsets: ``"last"``, ``"first"`` or a time.
    """

    def __init__(
        self,
        group: str,
        namesrv: str = DEFAULT_NAMESRV,
        *,
        model: str = "clustering",
        start_from: StartFrom = "last",
        auto_commit: bool = True,
        strategy: str | Strategy = "AVG",
        pull_batch: int = 32,
        max_cached: int = MAX_CACHED_COUNT,
        max_cached_bytes: int = MAX_CACHED_BYTES,
        suspend: float = 20.0,
        codec: CodecChoice = None,
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
        self.auto_commit = auto_commit
        self.suspend = suspend
        self._codec = find_codec(codec)
        self._pull_batch = pull_batch
        self._limits = (max_cached, max_cached_bytes)
        self._started = False
        self._closed = False
        self._started_ms = 0
        self._lock = asyncio.Lock()
        self._arrived = asyncio.Event()
        self._pulls: dict[ProcessQueue, asyncio.Task[None]] = {}
        self._delivered: dict[ProcessQueue, list[ReceivedMessage]] = {}
        self._paused: set[MessageQueue] = set()
        self._turn = 0
        self._assigned: Subscription | None = None
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
        self._member = GroupMember(
            group,
            options,
            model,
            "CONSUME_ACTIVELY",
            start_from,
            find_strategy(strategy),
            self._gained,
            self._lost,
            self._serve,
            with_retry=False,
        )

    # -- life

    async def start(self) -> Self:
        """Join the group. A second call does nothing. Raises `ClientStateError` when closed or the group is taken."""
        async with self._lock:
            if self._closed:
                raise ClientStateError(f"consumer {self.group} is closed, make a new one")
            if not self._started:
                self._started_ms = now_ms()
                if self._member.model == BROADCASTING:
                    await self._member.join(lambda instance: FileOffsets(instance.client_id, self.group))
                else:
                    await self._member.join(lambda instance: BrokerOffsets(instance, self.group))
                self._started = True
        return self

    async def close(self) -> None:
        """Store the offsets (with `auto_commit`, of all that was returned) and leave. A second call does nothing."""
        await self._close(self.auto_commit)

    async def _close(self, commit: bool) -> None:
        self._closed = True
        self._arrived.set()
        async with self._lock:
            if not self._started:
                return
            self._started = False
            if commit:
                self._consumed()
            await asyncio.shield(self._member.leave())

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whoever leaves by an error was not through with what it got: that is delivered again.
        await self._close(self.auto_commit and kind is None)

    # -- which queues

    def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Share the queues of a topic with the group: ``"*"``, ``"TagA || TagB"``, or ``sql("a > 5")``."""
        if self._assigned is not None:
            raise ClientStateError("queues are assigned already, subscribe to topics or assign queues, not both")
        check_topic(topic)
        self._member.subscribe(topic, expression)

    async def unsubscribe(self, topic: str) -> None:
        """Give the queues of a topic back."""
        await self._member.unsubscribe(topic)

    async def assign(self, queues: Iterable[MessageQueue], expression: str | Sql = "*") -> None:
        """Read exactly these queues, whoever else does, from the group's stored offsets on. Call it after `start`."""
        if self._member.subscriptions:
            raise ClientStateError("topics are subscribed already, subscribe to topics or assign queues, not both")
        wanted = list(queues)
        self._assigned = subscription("", expression, now_ms())
        for topic in {queue.topic for queue in wanted}:
            await self._member.instance.route(topic)
        await self._member.take_exactly(wanted)

    def assignment(self) -> list[MessageQueue]:
        """The queues held now."""
        return sorted(self._member.owned)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All readable queues of a topic. Raises `TopicNotFound`."""
        return (await self._member.instance.fetch_route(topic)).read_queues()

    # -- reading

    async def poll(self, timeout: float = 5.0, max_messages: int = 32) -> list[ReceivedMessage]:
        """Up to `max_messages` messages, [] when none came within `timeout` seconds.

        Raises `ClientStateError` when not started or closed.
        """
        self._check_running()
        if self.auto_commit:
            self._consumed()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            messages = self._take(max_messages)
            if messages or self._closed:
                return messages
            self._arrived.clear()
            left = deadline - loop.time()
            if left <= 0:
                return []
            try:
                async with asyncio.timeout(left):
                    await self._arrived.wait()
            except TimeoutError:
                return []

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Messages for ever, one by one; with `auto_commit` each is consumed when the next is asked for."""
        while not self._closed:
            for message in await self.poll(60.0, 1):
                yield message

    def _check_running(self) -> None:
        if not self._started:
            raise ClientStateError(f"consumer {self.group} is not running: use `async with` or await start()")
        self._member.instance.check_process()

    def _take(self, max_messages: int) -> list[ReceivedMessage]:
        """Messages of the queues in turn, so that a full one does not starve the others."""
        process_queues = [
            process_queue
            for queue, process_queue in self._member.owned.items()
            if process_queue.waiting and queue not in self._paused
        ]
        taken: list[ReceivedMessage] = []
        self._turn += 1
        for step in range(len(process_queues)):
            process_queue = process_queues[(self._turn + step) % len(process_queues)]
            waiting = process_queue.waiting
            count = min(max_messages - len(taken), len(waiting))
            messages = [waiting.popleft() for _ in range(count)]
            if messages:
                self._delivered.setdefault(process_queue, []).extend(messages)
                taken += messages
        return taken

    def _consumed(self) -> None:
        """What was returned so far is consumed."""
        delivered, self._delivered = self._delivered, {}
        for process_queue, messages in delivered.items():
            if not process_queue.dropped:
                self._member.store.update(process_queue.queue, process_queue.done(messages))

    # -- offsets

    async def commit(self) -> None:
        """Everything returned so far is consumed: store the offsets now, and return when the brokers have answered."""
        self._check_running()
        self._consumed()
        await self._member.store.persist(list(self._member.owned), wait=True)

    async def committed(self, queue: MessageQueue) -> int:
        """The group's stored offset of a queue, -1 when there is none."""
        self._check_running()
        return await self._member.store.load(queue)

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message `poll` will return of a queue we hold. Raises `ClientStateError`."""
        process_queue = self._held(queue)
        waiting = process_queue.waiting
        return waiting[0].queue_offset if waiting else process_queue.next_offset

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on from `offset` in a queue we hold; what was fetched ahead is forgotten. Raises `ClientStateError`."""
        process_queue = self._held(queue)
        task = self._pulls.pop(process_queue, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._delivered.pop(process_queue, None)
        process_queue.clear()
        process_queue.next_offset = offset
        self._start_pulling(process_queue)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on from the oldest message kept."""
        await self.seek(queue, await self._member.queue_begin(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the next message that arrives."""
        await self.seek(queue, await self._member.queue_end(queue))

    async def seek_to_time(self, queue: MessageQueue, moment: int | datetime) -> None:
        """Go on from the first message stored at a time (ms since 1970, or a datetime) or later."""
        await self.seek(queue, await self._member.offset_at(queue, timestamp_ms(moment)))

    async def begin_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message kept in a queue."""
        return await self._member.queue_begin(queue)

    async def end_offset(self, queue: MessageQueue) -> int:
        """The offset the next message of a queue will get."""
        return await self._member.queue_end(queue)

    async def lag(self) -> dict[MessageQueue, int]:
        """How many messages each queue held has that are not consumed, by its broker now."""
        self._check_running()
        return await self._member.lag()

    def _held(self, queue: MessageQueue) -> ProcessQueue:
        self._check_running()
        process_queue = self._member.owned.get(queue)
        if process_queue is None:
            raise ClientStateError(f"{queue} is not held by this consumer of {self.group}, see assignment()")
        return process_queue

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Return nothing of these queues until `resume`."""
        self._paused.update(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Return messages of these queues again."""
        self._paused.difference_update(queues)
        self._arrived.set()

    # -- fetching ahead

    async def _gained(self, process_queue: ProcessQueue) -> bool:
        process_queue.max_count, process_queue.max_bytes = self._limits
        process_queue.next_offset = await self._member.start_offset(process_queue.queue)
        self._start_pulling(process_queue)
        return True

    def _start_pulling(self, process_queue: ProcessQueue) -> None:
        task = self._member.instance.spawn(self._pull_loop(process_queue), f"pull {process_queue.queue}")
        self._pulls[process_queue] = task

    async def _lost(self, process_queue: ProcessQueue) -> None:
        self._delivered.pop(process_queue, None)
        task = self._pulls.pop(process_queue, None)
        if task is not None:
            task.cancel()

    async def _pull_loop(self, process_queue: ProcessQueue) -> None:
        queue = process_queue.queue
        while not process_queue.dropped:
            await process_queue.wait_for_room()
            wanted = self._assigned or self._member.subscriptions.get(queue.topic)
            if process_queue.dropped or wanted is None:
                return
            process_queue.last_pull = asyncio.get_running_loop().time()
            request = PullRequest(
                self.group,
                queue,
                process_queue.next_offset,
                wanted,
                self._pull_batch,
                self.suspend,
                broker_id=process_queue.suggested_broker,
                lite=True,
            )
            try:
                result = await pull(self._member.instance, request)
            except BolideError as error:
                log.warning("a pull of %s failed: %s", queue, error)
                await asyncio.sleep(PULL_FAILED_PAUSE)
                continue
            if not process_queue.dropped:
                self._pulled(process_queue, result)

    def _pulled(self, process_queue: ProcessQueue, result: PullResult) -> None:
        process_queue.suggested_broker = result.suggested_broker
        process_queue.next_offset = result.next_offset
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning("%s is read on from offset %d", process_queue.queue, result.next_offset)
            self._delivered.pop(process_queue, None)
            process_queue.clear()
        elif result.messages:
            for message in result.messages:
                message.codec = self._codec
            process_queue.add(result.messages)
            process_queue.waiting.extend(result.messages)
            self._arrived.set()
        elif process_queue.moved_to(result.next_offset):
            self._member.store.update(process_queue.queue, result.next_offset)

    # -- requests of brokers

    def _serve(self, command: Command) -> Command | Coroutine[Any, Any, Command | None] | None:
        if command.code == codes.RESET_CONSUMER_CLIENT_OFFSET:
            return self._reset(command)
        if command.code == codes.GET_CONSUMER_STATUS_FROM_CLIENT:
            return broker_requests.consumer_status(self._member, command)
        if command.code == codes.GET_CONSUMER_RUNNING_INFO:
            return broker_requests.running_info(self._member, command, self._started_ms, False, 1)
        return make_response(
            command, codes.REQUEST_CODE_NOT_SUPPORTED, f"a pull consumer does not serve {command.code}"
        )

    async def _reset(self, command: Command) -> Command | None:
        for queue, offset in broker_requests.reset_offsets_of(command).items():
            if queue in self._member.owned:
                await self.seek(queue, offset)
                self._member.store.update(queue, offset)
        await self._member.store.persist(list(self._member.owned), wait=True)
        return make_response(command, codes.SUCCESS)
