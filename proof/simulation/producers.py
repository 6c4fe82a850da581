"""Producers of a run: they send what the plan says and write down what they are told."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from bolide.client import (
    Command,
    Message,
    MessageQueue,
    MessageRefused,
    QueueChoice,
    ReceivedMessage,
    ResponseError,
    Retry,
    RpcCall,
    SendResult,
    SendStatus,
    TransactionProducer,
    TransactionState,
    World,
)
from bolide.errors import BolideError
from proof.ledger import Decision, Finding, Kind, Ledger, Outcome, Place, Queue, Send, number_of
from proof.simulation.plan import LEVELS_S, Action
from proof.simulation.swarm import TOPICS

BANK: Final = "Bank"
"""The group of all producers: each can say how a transaction of another ended."""
NUMBERS: Final = re.compile(rb"#(\d+)#")
NOBODY_KNOWS: Final = ("could not be synced", "the message is stored, but", "this broker is no longer the master")
"""With these remarks a broker refuses a message that may be kept."""


class Attempts:
    """A hook that counts how often each message leaves."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.left: dict[int, int] = {}

    def before(self, call: RpcCall) -> None:
        """A request leaves."""
        for number in map(int, NUMBERS.findall(call.body)):
            self.left[number] = self.left.get(number, 0) + 1

    def after(self, call: RpcCall, answer: Command) -> None:
        """Nothing to do."""


class Transactions:
    """The local transactions of all producers, as a database would keep them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._ends: dict[int, Decision] = {}
        self._checks: dict[int, int] = {}

    def begin(self, send: Send, action: Action) -> None:
        """A transaction is about to be sent; the plan says how it ends, and after how many checks."""
        ends = action.text("ends")
        self._ends[send.number] = Decision(ends) if ends != "never" else Decision.OPEN
        self._checks[send.number] = action.number("checks")

    async def execute(self, message: Message, argument: Any) -> TransactionState:
        """The half message is stored."""
        return self._ask(argument)

    async def check(self, message: ReceivedMessage) -> TransactionState:
        """A broker asks."""
        number = number_of(message.body)
        if number not in self._ends:
            self._ledger.findings.append(Finding("served what was not sent", f"a check of {message.body[:40]!r}"))
            return TransactionState.ROLLBACK
        send = self._ledger.sends[number]
        if send.outcome is Outcome.REFUSED:
            self._ledger.findings.append(Finding("refused is nowhere", f"a check asks about {send}: {send.why}"))
        return self._ask(send)

    def _ask(self, send: Send) -> TransactionState:
        left = self._checks[send.number]
        self._checks[send.number] = left - 1
        ends = self._ends[send.number]
        if left > 0 or ends is Decision.OPEN:
            return TransactionState.UNKNOWN
        self._ledger.decided(send, ends)
        return TransactionState.COMMIT if ends is Decision.COMMIT else TransactionState.ROLLBACK


class Sender:
    """One producer process."""

    def __init__(
        self, name: str, ledger: Ledger, transactions: Transactions, told: Callable[[str, str, str], None], retries: int
    ) -> None:
        self.name = name
        self._ledger = ledger
        self._transactions = transactions
        self._told = told
        self._retries = retries
        self._attempts = Attempts(ledger)
        self._handles: dict[int, tuple[Send, str]] = {}
        self._producer: TransactionProducer | None = None
        self.kept: list[tuple[str, str]] = []
        """The set and the broker's id of each message that was answered SEND_OK: the id names a machine and a place."""
        self.busy = 0
        """Actions that are not through."""

    async def start(self, namesrv: str, world: World) -> None:
        """Join; the client lives as long as its process."""
        self._producer = TransactionProducer(
            BANK,
            namesrv,
            self._transactions,
            retry=Retry(attempts=1 + self._retries),
            hooks=(self._attempts,),
            world=world,
        )
        await self._producer.start()

    @property
    def producer(self) -> TransactionProducer:
        """The client. A plan acts only once it is started."""
        assert self._producer is not None
        return self._producer

    async def act(self, action: Action) -> None:
        """Do what the plan says."""
        self.busy += 1
        try:
            if action.do == "recall":
                await self._recall(action)
            elif action.text("how") == "batch":
                await self._send_batch(action)
            elif action.text("how") in ("async", "oneway"):
                await self._send_many(action)
            elif action.text("how") == "transaction":
                await self._send_in_transaction(action)
            else:
                await self._send(action)
        finally:
            self.busy -= 1

    async def probe(self, topic: str, queue: MessageQueue) -> bool:
        """Whether a message is taken now."""
        send = self._ledger.send(self.name, topic, b"probe", tags="probe")
        try:
            result = await self.producer.send(_message(send), queue=queue)
        except Exception as error:
            self._failed([send], error)
            return False
        self._answered([send], result)
        return result.status is SendStatus.SEND_OK

    # -- one action each

    def _new(self, action: Action, index: int = 0) -> Send:
        how = action.text("how")
        kind, due = Kind.PLAIN, 0.0
        if how == "level":
            kind, due = Kind.DELAYED, float(LEVELS_S[action.number("level") - 1])
        elif how == "timer":
            kind, due = Kind.DELAYED, action.seconds("delay")
        elif how == "transaction":
            kind = Kind.HALF
        size = action.number("size")
        filler = bytes(97 + (index + at * 7) % 26 for at in range(size))
        return self._ledger.send(
            self.name,
            action.text("topic"),
            filler,
            tags=action.text("tag"),
            keys=f"k{action.number('n')}",
            properties={"n": str(action.number("n"))},
            kind=kind,
            due_at=self._ledger.now + due if due else 0.0,
            by_clock=how == "timer",
        )

    def _queue(self, action: Action) -> QueueChoice | None:
        if "queue" not in action.of:
            return None
        wanted = action.number("queue")
        return lambda queues, message: queues[wanted % len(queues)]

    async def _send(self, action: Action) -> None:
        send = self._new(action)
        message = _message(send, action)
        try:
            result = await self.producer.send(message, queue=self._queue(action))
        except Exception as error:
            self._failed([send], error)
            return
        self._answered([send], result)
        if result.recall_handle and send.kind is Kind.DELAYED:
            self._handles[action.number("id")] = (send, result.recall_handle)

    async def _send_batch(self, action: Action) -> None:
        sends = [self._new(action, index) for index in range(action.number("count"))]
        try:
            result = await self.producer.send_batch([_message(send) for send in sends], queue=self._queue(action))
        except Exception as error:
            self._failed(sends, error)
            return
        self._answered(sends, result)

    async def _send_many(self, action: Action) -> None:
        sends = [self._new(action, index) for index in range(action.number("count"))]
        if action.text("how") == "oneway":
            for send in sends:
                try:
                    await self.producer.send_oneway(_message(send), queue=self._queue(action))
                except Exception as error:
                    self._failed([send], error)
                else:
                    self._ledger.unknown(send, "oneway")
            return
        await asyncio.gather(*(self._one_of_many(send, action) for send in sends))

    async def _one_of_many(self, send: Send, action: Action) -> None:
        try:
            result = await self.producer.submit(_message(send), queue=self._queue(action))
        except Exception as error:
            self._failed([send], error)
        else:
            self._answered([send], result)

    async def _send_in_transaction(self, action: Action) -> None:
        send = self._new(action)
        self._transactions.begin(send, action)
        try:
            result = await self.producer.send_in_transaction(_message(send), send, queue=self._queue(action))
        except Exception as error:
            self._failed([send], error)
        else:
            self._answered([send], result.sent)

    async def _recall(self, action: Action) -> None:
        found = self._handles.get(action.number("id"))
        if found is None:
            return
        send, handle = found
        try:
            await self.producer.recall(send.content.topic, handle)
        except Exception as error:
            outcome = Outcome.REFUSED if _definite(error) else Outcome.UNKNOWN
            self._told("answer", f"recall of #{send.number}: {error}", "")
            if outcome is Outcome.UNKNOWN:
                self._ledger.recalled(send, outcome)
        else:
            self._ledger.recalled(send, Outcome.DONE)
            self._told("answer", f"recall of #{send.number}: done", "")

    # -- outcomes

    def _answered(self, sends: Sequence[Send], result: SendResult) -> None:
        self._count(sends)
        numbers = _numbers(sends)
        if result.status is not SendStatus.SEND_OK:
            for send in sends:
                self._ledger.unknown(send, result.status.name)
            self._told("answer", f"send of {numbers}: {result.status.name}", "")
            return
        queue = Queue(result.queue.broker_name, result.queue.topic, result.queue.queue_id)
        self.kept += ((queue.broker, stored) for stored in result.offset_message_id.split(","))
        if sends[0].kind is Kind.PLAIN:
            self._ledger.acknowledged_batch(sends, Place(queue, result.queue_offset))
        else:
            self._ledger.acknowledged(sends[0], None)
        kind = "answer" if queue.topic in TOPICS else "new_topic"
        self._told(kind, f"send of {numbers}: kept in {queue}+{result.queue_offset}", queue.broker)

    def _failed(self, sends: Sequence[Send], error: Exception) -> None:
        if not isinstance(error, BolideError):
            self._ledger.findings.append(Finding("clients raise their own errors", f"{self.name}: {error!r}"))
        self._count(sends)
        attempts = self._attempts.left.get(sends[0].number, 0)
        text = f"{type(error).__name__}: {str(error)[:160]}"
        certain = attempts == 0 or (attempts == 1 and _definite(error))
        for send in sends:
            (self._ledger.refused if certain else self._ledger.unknown)(send, text)
        self._told("answer", f"send of {_numbers(sends)}: {'refused' if certain else 'unknown'}, {text}", "")

    def _count(self, sends: Sequence[Send]) -> None:
        for send in sends:
            send.attempts = self._attempts.left.get(send.number, 0)


def _message(send: Send, action: Action | None = None) -> Message:
    content = send.content
    how = action.text("how") if action is not None else ""
    return Message(
        content.topic,
        content.body,
        tags=content.tags,
        keys=content.keys,
        properties=dict(content.properties),
        delay_level=action.number("level") if action is not None and how == "level" else 0,
        delay=action.seconds("delay") if action is not None and how == "timer" else 0,
    )


def _numbers(sends: Sequence[Send]) -> str:
    return f"#{sends[0].number}" if len(sends) == 1 else f"#{sends[0].number} to #{sends[-1].number}"


def _definite(error: BaseException) -> bool:
    """Whether an error says that nothing was kept."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, MessageRefused):
            return True
        if isinstance(found, ResponseError):
            # A name server's answer says nothing about an earlier try that a broker got.
            return "GET_ROUTEINFO" not in str(found) and not any(text in found.remark for text in NOBODY_KNOWS)
        found = found.__cause__
    return False
