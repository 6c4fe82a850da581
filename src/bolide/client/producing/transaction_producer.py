"""TransactionProducer: messages that become visible when a local transaction commits (RocketMQ's
TransactionMQProducer).

The message is stored where no consumer sees it. Then the local transaction runs, and the producer sends its outcome to
the broker (END_TRANSACTION, oneway). If the outcome is missing, the broker requests it from any running producer of the
group (CHECK_TRANSACTION_STATE). So `check` must read the outcome from storage, not from the memory of the process that
sent the message.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Annotated, Any, Final, Self, Unpack

from bolide.client.instance.options import DEFAULT_NAMESRV, Group, NameServers
from bolide.client.messages.arguments import check_method
from bolide.client.messages.checked import ANY, FROM_ONE, SECONDS, checked_methods, documented
from bolide.client.messages.codec import codec_of
from bolide.client.messages.errors import DamagedMessage, MessageRefused
from bolide.client.messages.message import Message
from bolide.client.messages.namespace import with_namespace, without_namespace
from bolide.client.messages.received import ReceivedMessage, intact_message
from bolide.client.messages.send_result import DEFAULT_REGION, SendStatus
from bolide.client.messages.transaction import TransactionListener, TransactionResult, TransactionState, state_of
from bolide.client.messages.user_code import call_user_code, enter, leave, raise_interruption, result_of
from bolide.client.producing.producer import Producer, ProducerOptions
from bolide.client.producing.publish import QueueChoice
from bolide.client.tracing.interceptor import EndTransactionCall, end_transaction
from bolide.errors import ArgumentError, BolideError
from bolide.layout import property_names as names
from bolide.layout.errors import RecordError
from bolide.layout.message_id import decode_offset_message_id
from bolide.layout.sysflag import TRANSACTION_PREPARED
from bolide.remoting import codes
from bolide.remoting.command import Command

log = logging.getLogger("bolide.client")

CONCURRENCY: Final = 20


@checked_methods
@documented
class TransactionProducer(Producer):
    """Sends messages in transactions. ``async with TransactionProducer("group", namesrv, listener) as producer: ...``

    Otherwise behaves like `Producer`, with codecs, interceptors and traces.
    """

    def __init__(
        self,
        group: Group,
        namesrv: NameServers = DEFAULT_NAMESRV,
        listener: Annotated[
            TransactionListener | None,
            ANY(
                "Runs local transactions, and reports how one ended if a broker asks.",
                "a `TransactionListener`, required",
            ),
        ] = None,
        *,
        concurrency: Annotated[
            int, FROM_ONE("Checks at the same time, and threads for a listener whose methods are not async.")
        ] = CONCURRENCY,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Does not connect before `start`. Raises `ArgumentError`, which names the argument, if one is invalid."""
        super().__init__(group, namesrv, **options)
        if listener is None:
            raise ArgumentError(f"producer {group} sends in transactions and needs a listener: give it one", "listener")
        check_method("listener", listener, "execute", "message, argument")
        check_method("listener", listener, "check", "message")
        self._sender.check_transaction = self._check_transaction
        self._listener = listener
        self._checks = asyncio.Semaphore(concurrency)
        self._threads = self._sender.options.world.pool(concurrency, f"bolide-{group}")

    async def start(self) -> Self:
        """Like `Producer.start`. Also registers the group with all brokers of the cluster, so that they can check
        transactions of other processes."""
        await super().start()
        instance = self._sender.instance
        await instance.heartbeats.send()
        instance.spawn(self._introduce(), "bolide introduction to brokers")
        return self

    async def _introduce(self) -> None:
        instance = self._sender.instance
        await instance.find_brokers(instance.brokers.keys())
        await instance.heartbeats.send()

    async def close(self) -> None:
        """Like `Producer.close`. Brokers check a pending transaction at another producer of the group.

        If called in the listener of this producer, it returns immediately, and the producer closes in the background.
        """
        await super().close()
        self._threads.shutdown(wait=False)

    async def send_in_transaction(
        self,
        message: Message,
        argument: Any = None,
        *,
        queue: QueueChoice | None = None,
        timeout: Annotated[float | None, SECONDS] = None,
    ) -> TransactionResult:
        """Store a message invisibly, run ``listener.execute(message, argument)``, and send its outcome to the broker.

        A message that was not stored as safely as required is rolled back without running the transaction. Raises like
        `Producer.send`, before the transaction runs, and `MessageRefused` for a message with a delay.
        """
        if message.delayed:
            raise MessageRefused("a message in a transaction cannot have a delay: it appears at the commit", "message")
        sender = self._sender
        await sender.wait_for_slots(1, sender.size_of(message))
        marks = f"TRAN_MSG\x01true\x02PGROUP\x01{sender.group}\x02"
        sent = await sender.accept(message, queue, timeout, marks=marks, sys_flag=TRANSACTION_PREPARED).future
        if sent.status is not SendStatus.SEND_OK:
            result = TransactionResult(sent, TransactionState.ROLLBACK)
        else:
            state, error = await self._ask_listener(self._listener.execute, sent.message_id, message, argument)
            result = TransactionResult(sent, state, error)
        await self._end_sent(message, result)
        return result

    def _check_transaction(self, address: str, command: Command) -> bool:
        """Handle a broker's check of a transaction. Return False if the transaction does not belong to this group."""
        try:
            message = intact_message(command.body, "")
        except RecordError as error:
            log.warning("%s checks a transaction with a body that is not a message: %s", address, error)
            return False
        except DamagedMessage as error:  # without a response the broker checks again, perhaps at another producer
            log.error("%s checks a transaction, but its message is damaged: %s", address, error)
            return True
        sender = self._sender
        if message.get_property(names.PGROUP) != sender.group or sender.joined is None:
            return False
        message.topic = without_namespace(sender.options.namespace, message.topic)
        message.codec = codec_of(sender.codec, message.topic)
        sender.joined.spawn(self._answer_check(address, message, command.ext()), f"transaction {message.message_id}")
        return True

    async def _answer_check(self, address: str, message: ReceivedMessage, asked: dict[str, str]) -> None:
        async with self._checks:
            state, _ = await self._ask_listener(self._listener.check, message.message_id, message)
        transaction_id = asked.get("transactionId") or message.message_id
        region_id = message.get_property(names.MSG_REGION) or DEFAULT_REGION
        call = EndTransactionCall(
            self._sender.group,
            message.topic,
            message.tags,
            " ".join(message.keys),
            message.message_id,
            transaction_id,
            state,
            address,
            True,
            region_id,
            self._sender.wall_ms(),
        )
        ext = {
            "tranStateTableOffset": asked.get("tranStateTableOffset", ""),
            "commitLogOffset": asked.get("commitLogOffset", ""),
            "topic": asked.get("topic") or message.record.topic,
        }
        await self._end(call, ext)

    async def _end_sent(self, message: Message, result: TransactionResult) -> None:
        sent = result.sent
        address = self._sender.instance.master_address(sent.queue.broker_name)
        if address is None:
            log.warning("broker %s has no master now: it will check %s", sent.queue.broker_name, sent.message_id)
            return
        call = EndTransactionCall(
            self._sender.group,
            message.topic,
            message.tags,
            message.keys_text,
            sent.message_id,
            sent.transaction_id or sent.message_id,
            result.state,
            address,
            False,
            sent.region_id,
            self._sender.wall_ms(),
        )
        ext = {
            "tranStateTableOffset": str(sent.queue_offset),
            "commitLogOffset": str(decode_offset_message_id(sent.offset_message_id)[2]),
            "topic": with_namespace(self._sender.options.namespace, sent.queue.topic),
            "bname": sent.queue.broker_name,
        }
        await self._end(call, ext)

    async def _end(self, call: EndTransactionCall, ext: dict[str, str]) -> None:
        end_transaction(call, self._sender.interceptors)
        ext["producerGroup"] = call.group
        ext["commitOrRollback"] = str(int(call.state))
        ext["fromTransactionCheck"] = "true" if call.from_check else "false"
        ext["msgId"] = call.message_id
        ext["transactionId"] = call.transaction_id
        try:
            await self._sender.instance.oneway(call.broker_address, codes.END_TRANSACTION, ext)
        except BolideError as error:
            log.warning("%s did not receive the end of %s (%s)", call.broker_address, call.message_id, error)

    async def _ask_listener(
        self, method: Callable[..., Any], message_id: str, *arguments: Any
    ) -> tuple[TransactionState, BaseException | None]:
        """Return the listener's outcome, or UNKNOWN and the error if it raises or does not return a state."""
        name = getattr(method, "__name__", "the listener")
        token = enter(self)
        try:
            outcome = await self._call(method, *arguments)
        except BaseException as error:
            raise_interruption(error)
            log.warning("%s of transaction %s failed: %r", name, message_id, error, exc_info=error)
            return TransactionState.UNKNOWN, error
        finally:
            leave(token)
        try:
            return state_of(outcome), None
        except TypeError as error:
            log.warning("%s of transaction %s: %s; the broker will check again", name, message_id, error)
            return TransactionState.UNKNOWN, error

    async def _call(self, function: Any, *arguments: Any) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        outcome = await self._sender.loop.run_in_executor(self._threads, call_user_code, function, *arguments)
        if isinstance(outcome, Future):
            return await result_of(outcome)
        return await outcome if inspect.isawaitable(outcome) else outcome
