"""A broker with transactions on, one producer connected to it, and a clock that gives the service its ticks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bolide.broker.append.uniq_key import UniqKeys
from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Nothing
from bolide.broker.send.send import SendService
from bolide.broker.tables.clients import Client
from bolide.broker.transactions.transactions import COMMIT, TransactionService
from bolide.layout.message_id import decode_offset_message_id
from bolide.layout.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.store.disk.files import Files
from bolide.testing.files import SimulatedFiles
from tests.broker.parts import NOW, PEER, Parts, properties_of, reply_of, send_request, text

IMMUNE_MS = 6_000
INTERVAL_MS = 30_000


class Transactions(Parts):
    """The parts with transactions on, one producer connected, and a clock."""

    def __init__(self, folder: Path, files: Files | None = None, **settings: Any) -> None:
        super().__init__(folder, files, **settings)
        self.folder = folder
        self.files = files
        self.given = settings
        self.flushes = True
        """False: what is written and dispatched may be lost yet, as an asynchronous flush leaves it for a while."""
        self.now = NOW
        self.producer = Channel(7, PEER, "10.1.2.3:7777", 10911)
        self.clients.register_producer("pg", Client(self.producer, "client", 0, 513, NOW))
        self.start_service()

    def begin_sends(self) -> None:
        """A service for sends that takes half messages."""
        keys = UniqKeys(b"\x7f\x00\x00\x01", 1, 2)
        self.send_service = SendService(
            self.options, self.writer, self.topics, self.groups, self.locks, keys, self.stats, self.service
        )

    def start_service(self) -> None:
        """What a start of the broker does: nothing is known but what is stored."""
        self.service = TransactionService(
            self.options, self.writer, self.topics, self.offsets, self.clients, self.effects, self.now
        )
        self.begin_sends()

    def half(self, queue_id: int = 2, **properties: str) -> Command:
        """Send a half message of topic T; its answer."""
        sent = text(**{"UNIQ_KEY": "U", "TRAN_MSG": "true", "PGROUP": "pg", "TAGS": "a", **properties})
        answer = self.answer(send_request(properties=sent, e=str(queue_id), f="4", g=str(self.now)), self.now)
        assert answer.code == 0
        return answer

    def end(self, half: Command, how: int, **fields: str) -> Command | None:
        """END_TRANSACTION as the client makes it of the answer to its send."""
        outcome = self.service.handlers()[codes.END_TRANSACTION](
            self.channel, end_request(half, how, **fields), self.now
        )
        answer = None if isinstance(outcome, Nothing) else reply_of(outcome)
        self.settle()
        return answer

    def code(self, half: Command, how: int, **fields: str) -> int:
        answer = self.end(half, how, **fields)
        assert answer is not None
        return answer.code

    def later(self, milliseconds: int) -> None:
        """Let time pass, and the service have every tick it asks for."""
        stop = self.now + milliseconds
        while (due := self.service.due(self.now)) is not None and due <= stop:
            self.now = max(self.now, due)
            self.service.tick(self.now, 1000)
            self.settle()
        self.now = stop

    def settle(self) -> None:
        """What the end of a turn does to the store, with the flush of that time done at once."""
        super().settle()
        if self.flushes:
            self.store.log.sync_all()

    def restart(self, **settings: Any) -> None:
        """A start of the broker over what is stored: the store is opened again, then the service begins."""
        self.store.close(self.now)
        self.reopen(**settings)

    def reopen(self, **settings: Any) -> None:
        """A start over the files as they are."""
        offsets = self.offsets.encode()
        super().__init__(self.folder, self.files, **{**self.given, **settings})
        self.offsets.load(offsets)
        self.clients.register_producer("pg", Client(self.producer, "client", 0, 513, NOW))
        self.start_service()
        self.service.begin(self.now)

    def asked(self) -> list[Command]:
        """The questions sent to the producer since the last call."""
        sends, self.effects.sends = self.effects.sends, []
        assert all(channel is self.producer for channel, _ in sends)
        return [command for _, command in sends]

    def progress(self) -> tuple[int, int]:
        return (
            self.offsets.query(TRANSACTION_GROUP, HALF_TOPIC, 0),
            self.offsets.query(TRANSACTION_GROUP, OP_HALF_TOPIC, 0),
        )

    def ops(self) -> list[bytes]:
        return [record.body for record in self.records(OP_HALF_TOPIC)]


@contextmanager
def on_a_simulated_disk() -> Iterator[Transactions]:
    """A broker whose disk fails when it is told to."""
    files = SimulatedFiles()
    files.make_dir("/store")
    made = Transactions(Path("/store"), files)
    yield made
    made.close()


def disk(parts: Transactions) -> SimulatedFiles:
    """The simulated disk under these parts."""
    assert isinstance(parts.files, SimulatedFiles)
    return parts.files


def commit_all_asked(parts: Transactions) -> None:
    """What an honest producer answers; a question about what was taken back finds nothing any more."""
    for question in parts.asked():
        parts.end(answer_of(question), COMMIT, **from_check(question))


def delivered(parts: Transactions) -> Counter[str]:
    """How often each transaction came to its topic."""
    return keys_in(parts, "T", 2)


def keys_in(parts: Transactions, topic: str, queue_id: int = 0) -> Counter[str]:
    """How often each message is in a queue. A record whose properties were torn by a power cut is nobody's."""
    found = [parts.store.record_at(at, size) for at, size, _ in parts.store.units(topic, queue_id, 0, 1000)]
    whole = [record for record in found if record is not None and not record.properties.endswith(b"\0")]
    return Counter(properties_of(record)["UNIQ_KEY"] for record in whole)


def end_request(half: Command, how: int, **fields: str) -> Command:
    ext = half.ext()
    header = {
        "producerGroup": "pg",
        "tranStateTableOffset": ext["queueOffset"],
        "commitLogOffset": str(decode_offset_message_id(ext["msgId"])[2]),
        "commitOrRollback": str(how),
        "fromTransactionCheck": "false",
        "msgId": "U",
    }
    return make_request(codes.END_TRANSACTION, 3, {**header, **fields})


def answer_of(question: Command) -> Command:
    """A check has the fields that `end` reads of an answer to a send."""
    ext = question.ext()
    return make_request(0, 1, {"queueOffset": ext["tranStateTableOffset"], "msgId": ext["offsetMsgId"]})


def from_check(question: Command) -> dict[str, str]:
    """The fields a client's answer to a check takes from it."""
    ext = question.ext()
    return {
        "tranStateTableOffset": ext["tranStateTableOffset"],
        "commitLogOffset": ext["commitLogOffset"],
        "fromTransactionCheck": "true",
    }
