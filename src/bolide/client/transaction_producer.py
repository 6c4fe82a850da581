"""TransactionProducer: messages that appear when a local transaction commits (RocketMQ's TransactionMQProducer).

The message is stored where no consumer sees it, then the local transaction runs, then the broker is told how it ended
(END_TRANSACTION, oneway). A broker that is not told asks (CHECK_TRANSACTION_STATE), any producer of the group that
lives: so `check` must find the outcome where it is kept, not in the memory of the process that sent the message.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import ssl as ssl_module
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Protocol, Self

from bolide.client.errors import MessageRefused
from bolide.client.hooks import RpcHook
from bolide.client.message import MAX_BODY, Message
from bolide.client.options import DEFAULT_NAMESRV
from bolide.client.producer import MAX_IN_FLIGHT, SEND_TIMEOUT, Producer
from bolide.client.publish import QueueChoice
from bolide.client.received import ReceivedMessage
from bolide.client.send_result import SendResult, SendStatus
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.errors import RecordError
from bolide.layout.message_id import decode_offset_message_id
from bolide.layout.record import decode_record
from bolide.layout.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from bolide.remoting import codes
from bolide.remoting.command import Command

log = logging.getLogger("bolide.client")

CONCURRENCY: Final = 20


class TransactionState(IntEnum):
    """How a local transaction ended. UNKNOWN leaves the message where it is: the broker will ask again."""

    UNKNOWN = TRANSACTION_NONE
    COMMIT = TRANSACTION_COMMIT
    ROLLBACK = TRANSACTION_ROLLBACK


class TransactionListener(Protocol):
    """The user's side of a transaction. Both methods are async, or plain (then they run in a thread)."""

    def execute(self, message: Message, argument: Any) -> Any:
        """Run the local transaction for a message that is stored but not visible; return a `TransactionState`.

        None counts as UNKNOWN, and so does an exception.
        """

    def check(self, message: ReceivedMessage) -> Any:
        """Say how the local transaction of this message ended; return a `TransactionState`. May be asked repeatedly."""


@dataclass(slots=True)
class TransactionResult:
    """Where the half message is stored and what the broker was told; `error` is what `execute` raised."""

    sent: SendResult
    state: TransactionState
    error: Exception | None = None


class TransactionProducer(Producer):
    """Sends messages in transactions. ``async with TransactionProducer("group", namesrv, listener) as producer: ...``

    `concurrency` bounds the checks at once, and the threads of a plain listener; what else there is, is as in
    `Producer`. Plain sends work as there, too.
    """

    def __init__(
        self,
        group: str,
        namesrv: str = DEFAULT_NAMESRV,
        listener: TransactionListener | None = None,
        *,
        concurrency: int = CONCURRENCY,
        timeout: float = SEND_TIMEOUT,
        retries: int = 2,
        max_in_flight: int = MAX_IN_FLIGHT,
        compress_above: int = 4096,
        compression: str = "ZLIB",
        max_body: int = MAX_BODY,
        queue_count: int = 4,
        instance_name: str = "DEFAULT",
        client_id: str | None = None,
        access_key: str = "",
        secret_key: str = "",
        hooks: tuple[RpcHook, ...] = (),
        ssl: ssl_module.SSLContext | None = None,
    ) -> None:
        """Nothing is connected before `start`. Raises `MessageRefused` without a listener."""
        super().__init__(
            group,
            namesrv,
            timeout=timeout,
            retries=retries,
            max_in_flight=max_in_flight,
            compress_above=compress_above,
            compression=compression,
            max_body=max_body,
            queue_count=queue_count,
            instance_name=instance_name,
            client_id=client_id,
            access_key=access_key,
            secret_key=secret_key,
            hooks=hooks,
            ssl=ssl,
        )
        if listener is None:
            raise MessageRefused(f"producer {group} sends in transactions and needs a listener: give it one")
        self.listener = listener
        self._checks = asyncio.Semaphore(concurrency)
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix=f"bolide-{group}")

    async def start(self) -> Self:
        """As in `Producer`; the brokers known already learn of the group at once, so that they can ask it."""
        await super().start()
        await self.instance.heartbeats.send()
        return self

    async def close(self) -> None:
        """As in `Producer`. A transaction that is still open is asked about at another producer of the group."""
        await super().close()
        self._threads.shutdown(wait=False)

    async def send_in_transaction(
        self,
        message: Message,
        argument: Any = None,
        *,
        queue: QueueChoice | None = None,
        timeout: float | None = None,
    ) -> TransactionResult:
        """Store a message unseen, run ``listener.execute(message, argument)``, and tell the broker how that ended.

        A message that was stored but not as safe as wished is rolled back without running anything. Raises as
        `Producer.send`, before the transaction has run; `MessageRefused` for a message with a delay level.
        """
        if message.delay_level:
            raise MessageRefused("a message in a transaction takes no delay level: it appears when it commits")
        await self._wait_for_slot()
        marks = f"TRAN_MSG\x01true\x02PGROUP\x01{self.group}\x02"
        sent = await self._accept(message, queue, timeout, False, marks, TRANSACTION_PREPARED).future
        if sent.status is not SendStatus.SEND_OK:
            result = TransactionResult(sent, TransactionState.ROLLBACK)
        else:
            try:
                state = state_of(await self._call(self.listener.execute, message, argument))
                result = TransactionResult(sent, state)
            except Exception as error:
                log.warning("the local transaction of %s failed: %r", sent.message_id, error, exc_info=error)
                result = TransactionResult(sent, TransactionState.UNKNOWN, error)
        await self._end_sent(message.topic, result)
        return result

    def check_transaction(self, address: str, command: Command) -> bool:
        """A broker asks how a transaction ended; False when it is not one of this group."""
        try:
            message = ReceivedMessage(decode_record(command.body, 0), "")
        except RecordError as error:
            log.warning("%s asks about a transaction with a body that is no message: %s", address, error)
            return False
        if message.get_property(names.PGROUP) != self.group or self._instance is None:
            return False
        self._instance.spawn(self._answer_check(address, message, command.ext()), f"transaction {message.message_id}")
        return True

    async def _answer_check(self, address: str, message: ReceivedMessage, asked: dict[str, str]) -> None:
        async with self._checks:
            try:
                state = state_of(await self._call(self.listener.check, message))
            except Exception as error:
                log.warning("the check of transaction %s failed: %r", message.message_id, error, exc_info=error)
                state = TransactionState.UNKNOWN
        ext = {
            "tranStateTableOffset": asked.get("tranStateTableOffset", ""),
            "commitLogOffset": asked.get("commitLogOffset", ""),
            "fromTransactionCheck": "true",
            "msgId": message.message_id,
            "transactionId": asked.get("transactionId") or message.message_id,
            "topic": asked.get("topic") or message.topic,
        }
        await self._end(address, ext, state)

    async def _end_sent(self, topic: str, result: TransactionResult) -> None:
        sent = result.sent
        address = self.instance.master_address(sent.queue.broker_name)
        if address is None:
            log.warning("broker %s has no master now: it will ask about %s", sent.queue.broker_name, sent.message_id)
            return
        ext = {
            "tranStateTableOffset": str(sent.queue_offset),
            "commitLogOffset": str(decode_offset_message_id(sent.offset_message_id)[2]),
            "fromTransactionCheck": "false",
            "msgId": sent.message_id,
            "transactionId": sent.transaction_id or sent.message_id,
            "topic": topic,
            "bname": sent.queue.broker_name,
        }
        await self._end(address, ext, result.state)

    async def _end(self, address: str, ext: dict[str, str], state: TransactionState) -> None:
        ext["producerGroup"] = self.group
        ext["commitOrRollback"] = str(int(state))
        try:
            await self.instance.oneway(address, codes.END_TRANSACTION, ext)
        except BolideError as error:
            log.warning("%s does not know that %s ended (%s): it will ask", address, ext["msgId"], error)

    async def _call(self, function: Any, *arguments: Any) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        return await self.loop.run_in_executor(self._threads, function, *arguments)


def state_of(outcome: Any) -> TransactionState:
    """What a listener returned, as a state. Raises `TypeError` for what is none."""
    if outcome is None:
        return TransactionState.UNKNOWN
    if not isinstance(outcome, TransactionState):
        raise TypeError(f"a transaction listener returned {outcome!r}: return a TransactionState")
    return outcome
