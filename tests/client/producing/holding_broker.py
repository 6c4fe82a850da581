"""A scripted broker that holds its responses to sends, and what tests read from it."""

from __future__ import annotations

from bolide.client import Message, SendResult
from bolide.layout.record import Record, decode_records
from bolide.remoting import codes
from bolide.remoting.batch import decode_batch
from bolide.remoting.command import Command
from tests.client.scripted_broker import Client, ScriptedBroker

SENDS = (codes.SEND_MESSAGE_V2, codes.SEND_BATCH_MESSAGE)


class HoldingBroker(ScriptedBroker):
    """Stores sends, and answers them when it is told to."""

    def __init__(self, queues: int = 1) -> None:
        super().__init__(queues=queues)
        self.holds = False
        self.unsent: list[tuple[Client, Command]] = []

    def handle(self, client: Client, command: Command) -> Command | None:
        answer = super().handle(client, command)
        if self.holds and command.code in SENDS and answer is not None:
            self.unsent.append((client, answer))
            return None
        return answer

    def let_go(self) -> None:
        """Answer what was held, and hold no more."""

        def work() -> None:
            self.holds = False
            for client, answer in self.unsent:
                client.write(answer)
            self.unsent = []

        self.on_loop(work)


def batches(broker: ScriptedBroker) -> list[list[bytes]]:
    """The bodies of the messages of each batch."""
    return [[part.body for part in decode_batch(each.body)] for each in broker.requests(codes.SEND_BATCH_MESSAGE)]


def record_of(broker: ScriptedBroker, result: SendResult) -> Record:
    (record,) = decode_records(broker.stored[result.queue.topic, result.queue.queue_id][result.queue_offset])
    return record


def texts(count: int, name: str = "m") -> list[Message]:
    return [Message("T", f"{name}{number}".encode(), sharding_key="k") for number in range(count)]
