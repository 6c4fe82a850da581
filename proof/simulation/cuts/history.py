"""What clients and operators do to a machine, by chance, and what they note of it in the book."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from bolide.remoting import codes
from bolide.remoting.batch import BatchMessage, encode_batch
from bolide.remoting.command import Command
from proof.simulation.cuts.book import DONE, REFUSED, UNKNOWN, Book, Sent, Topic
from proof.simulation.cuts.machine import Machine

KEPT: Final = ("Keep0", "Keep1")
"""Topics that are never deleted: delayed messages and transactions go there."""
GONE: Final = ("Gone0", "Gone1", "Gone2")
QUEUES: Final = 2
GROUP: Final = "producers"
REFUSALS: Final = (codes.MESSAGE_ILLEGAL, codes.TOPIC_NOT_EXIST, codes.SYSTEM_ERROR, codes.NO_PERMISSION)
"""Answers that say: nothing of it was stored."""


class Clients:
    """All clients of one store, over its boots."""

    def __init__(self, book: Book, choice: random.Random) -> None:
        self.book = book
        self.choice = choice
        self.boot = 0
        self.problems: list[str] = []
        """Answers that are wrong by themselves."""
        self.decides = True
        """Questions about half messages are answered."""
        self.note: Callable[[str], None] | None = None
        """Told of every request and answer, for a trace."""
        self._opaque = 0
        self._waiting: dict[int, Callable[[Command], None]] = {}

    def connect(self, machine: Machine) -> None:
        """Every client connects to the broker of this boot; what was not answered never will be."""
        self.machine = machine
        self.boot += 1
        self._waiting.clear()
        self.channel = machine.connect(self.boot, self._told)
        heartbeat = b'{"clientID":"c","consumerDataSet":[],"producerDataSet":[{"groupName":"%s"}]}' % GROUP.encode()
        self._ask(codes.HEART_BEAT, {}, lambda answer: None, heartbeat)

    def _ask(self, code: int, ext: dict[str, str], then: Callable[[Command], None], body: bytes = b"") -> None:
        self._opaque += 1
        self._waiting[self._opaque] = then
        if self.note is not None:
            self.note(f"-> {self._opaque} code {code} {_shown(ext, body)}")
        self.machine.ask(self.channel, code, self._opaque, ext, body)

    def _told(self, command: Command) -> None:
        if self.note is not None:
            text = f"<- {command.opaque} code {command.code} {command.remark or ''}"
            self.note(f"{text} {_shown(command.ext(), command.body)}")
        if command.is_response:
            then = self._waiting.pop(command.opaque, None)
            if then is not None:
                then(command)
        elif command.code == codes.CHECK_TRANSACTION_STATE and self.decides:
            self._asked(command)

    @property
    def unanswered(self) -> int:
        """Requests without an answer."""
        return len(self._waiting)

    # -- messages --

    def send(self, kind: str, delay: int = 0) -> Sent:
        """Send one message."""
        return self._send(self._message(kind, delay))

    def send_to(self, topic: str) -> Sent:
        """Send one message to this topic."""
        return self._send(self._message("plain", topic=topic))

    def _send(self, sent: Sent) -> Sent:
        flag = "4" if sent.kind == "half" else "0"
        self._ask(codes.SEND_MESSAGE_V2, self._ext(sent, flag), lambda answer: self._stored([sent], answer), sent.body)
        return sent

    def send_batch(self) -> None:
        """Send a few messages in one request."""
        first = self._message("batch")
        all_of_it = [first]
        for _ in range(self.choice.randrange(1, 4)):
            more = self._message("batch", topic=first.topic)
            more.queue_id, more.epoch = first.queue_id, first.epoch
            all_of_it.append(more)
        body = encode_batch([BatchMessage(0, sent.body, _text(sent.properties).encode()) for sent in all_of_it])
        ext = {**self._ext(first, "0"), "i": "", "m": "true"}
        self._ask(codes.SEND_BATCH_MESSAGE, ext, lambda answer: self._stored(all_of_it, answer), body)

    def _message(self, kind: str, delay: int = 0, topic: str = "") -> Sent:
        choice = self.choice
        if not topic:
            topic = choice.choice(KEPT if kind in ("level", "timer", "half") else KEPT + GONE)
        uid = self.book.next_uid()
        body = uid.encode() + b"|" + b"body %s " % uid.encode() * choice.choice((0, 1, 3, 10, 40))
        properties = {"UNIQ_KEY": uid, "KEYS": f"k{uid}", "TAGS": f"tag{choice.randrange(3)}"}
        if choice.random() < 0.5:
            properties["filler"] = "property of " + uid * choice.choice((1, 20, 60, 110))
        if kind == "level":
            properties["DELAY"] = str(1 + choice.randrange(3))
        elif kind == "timer":
            properties["TIMER_DELIVER_MS"] = str(self.machine.now + delay)
        elif kind == "half":
            properties |= {"TRAN_MSG": "true", "PGROUP": GROUP}
        known = self.book.topics.setdefault(topic, Topic(topic))
        if 0 in known.states:
            known.ask(4)
        sent = Sent(uid, kind, topic, choice.randrange(QUEUES), known.epoch, body, properties, self.boot)
        self.book.sent[uid] = sent
        return sent

    def _ext(self, sent: Sent, flag: str) -> dict[str, str]:
        return {
            "a": GROUP,
            "b": sent.topic,
            "c": "TBW102",
            "d": "4",
            "e": str(sent.queue_id),
            "f": flag,
            "g": str(self.machine.now),
            "h": "0",
            "i": _text(sent.properties),
        }

    def _stored(self, all_of_it: list[Sent], answer: Command) -> None:
        if answer.code in REFUSALS:
            for sent in all_of_it:
                sent.state = REFUSED
            return
        if answer.code != codes.SUCCESS:
            return  # it promises nothing
        ext = answer.ext()
        places = ext["msgId"].split(",")
        if len(places) != len(all_of_it):
            self.problems.append(f"the answer to {len(all_of_it)} messages names {len(places)}")
        for number, (sent, place) in enumerate(zip(all_of_it, places, strict=False)):
            sent.state = DONE
            sent.place = int(place[-16:], 16)
            sent.queue_offset = int(ext["queueOffset"]) + number
        topic = self.book.topics[all_of_it[0].topic]
        if all_of_it[0].epoch == topic.epoch:
            topic.states.discard(0)

    # -- transactions --

    def end_one(self) -> None:
        """End a half message."""
        open_halves = [s for s in self.book.of_kind("half") if s.state == DONE and not s.end and s.place >= 0]
        if not open_halves:
            return
        sent = self.choice.choice(open_halves)
        sent.end = "commit" if self.choice.random() < 0.7 else "rollback"
        self._end(sent, sent.place, sent.queue_offset, False)

    def _asked(self, question: Command) -> None:
        ext = question.ext()
        sent = self.book.sent.get(ext.get("msgId", ""))
        if sent is None:
            self.problems.append(f"asked about {ext.get('msgId')}, which nobody sent")
            return
        if not sent.end:
            sent.end = "commit" if self.choice.random() < 0.7 else "rollback"
        self._end(sent, int(ext["commitLogOffset"]), int(ext["tranStateTableOffset"]), True)

    def _end(self, sent: Sent, place: int, queue_offset: int, from_check: bool) -> None:
        if sent.end_state != DONE:
            sent.end_state = UNKNOWN
        ext = {
            "producerGroup": GROUP,
            "tranStateTableOffset": str(queue_offset),
            "commitLogOffset": str(place),
            "commitOrRollback": "8" if sent.end == "commit" else "12",
            "fromTransactionCheck": "true" if from_check else "false",
            "msgId": sent.uid,
        }

        def ended(answer: Command) -> None:
            if answer.code == codes.SUCCESS:
                sent.end_state = DONE
                sent.end_safe = False

        self._ask(codes.END_TRANSACTION, ext, ended)

    # -- operators and consumers --

    def create_topic(self, name: str, queues: int = QUEUES) -> None:
        """Create or change a topic."""
        topic = self.book.topics.setdefault(name, Topic(name))
        asked = topic.ask(queues)
        number = str(queues)
        ext = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": number, "writeQueueNums": number, "perm": "6"}
        ext |= {"topicFilterType": "SINGLE_TAG", "order": "false"}

        def created(answer: Command) -> None:
            if answer.code == codes.SUCCESS and topic.asked == asked:
                topic.states = {queues}

        self._ask(codes.UPDATE_AND_CREATE_TOPIC, ext, created)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        topic = self.book.topics.setdefault(name, Topic(name))
        asked = topic.ask(0)
        topic.epoch += 1
        epoch = topic.epoch

        def deleted(answer: Command) -> None:
            if answer.code == codes.SUCCESS:
                topic.certain_epoch = max(topic.certain_epoch, epoch)
                if topic.asked == asked:
                    topic.states = {0}

        self._ask(codes.DELETE_TOPIC_IN_BROKER, {"topic": name}, deleted)

    def change_group(self, name: str) -> None:
        """Create a group, or delete it."""
        group = self.book.groups.setdefault(name, Topic(name))
        exists = int(self.choice.random() < 0.6)
        asked = group.ask(exists)

        def changed(answer: Command) -> None:
            if answer.code == codes.SUCCESS and group.asked == asked:
                group.states = {exists}

        if exists:
            body = b'{"groupName":"%s","consumeEnable":true,"retryQueueNums":1,"retryMaxTimes":16}' % name.encode()
            self._ask(codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, changed, body)
        else:
            self._ask(codes.DELETE_SUBSCRIPTIONGROUP, {"groupName": name}, changed)

    def commit_offset(self) -> None:
        """A consumer says how far it is."""
        topic, queue_id = self.choice.choice(KEPT), self.choice.randrange(QUEUES)
        done = [
            s.queue_offset for s in self.book.of_kind("plain", "batch") if (s.topic, s.queue_id) == (topic, queue_id)
        ]
        if not done or max(done) < 0:
            return
        key = ("consumers", topic, queue_id)
        offset = self.choice.randrange(max(done) + 2)
        self.book.offsets[key] = max(self.book.offsets.get(key, 0), offset)
        ext = {"consumerGroup": "consumers", "topic": topic, "queueId": str(queue_id), "commitOffset": str(offset)}
        self._ask(codes.UPDATE_CONSUMER_OFFSET, ext, lambda answer: None)

    def expire(self) -> None:
        """Time for the oldest log files to go."""
        self.book.expiry_asked = True
        self._ask(codes.DELETE_EXPIRED_COMMITLOG, {}, lambda answer: None)

    def pull(self, topic: str, queue_id: int, offset: int, then: Callable[[Command], None]) -> None:
        """Pull from a queue."""
        ext = {"consumerGroup": "consumers", "topic": topic, "queueId": str(queue_id), "queueOffset": str(offset)}
        ext |= {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
        self._ask(codes.PULL_MESSAGE, {**ext, "subscription": "*"}, then)

    # -- chance --

    def one_thing(self) -> None:
        """Something that a client or an operator does."""
        choice = self.choice
        chance = choice.random()
        if chance < 0.36:
            self.send("plain")
        elif chance < 0.46:
            self.send_batch()
        elif chance < 0.56:
            self.send("level")
        elif chance < 0.66:
            self.send("timer", choice.choice((1_500, 4_000, 20_000)))
        elif chance < 0.76:
            self.send("half")
        elif chance < 0.84:
            self.end_one()
        elif chance < 0.88:
            self.create_topic(choice.choice(GONE), choice.choice((2, 4)))
        elif chance < 0.92:
            self.delete_topic(choice.choice(GONE))
        elif chance < 0.95:
            self.change_group(f"group{choice.randrange(3)}")
        elif chance < 0.985:
            self.commit_offset()
        else:
            self.expire()


def _shown(ext: dict[str, str], body: bytes) -> str:
    fields = [f"{name}={value[:60]!r}" for name, value in ext.items() if name not in ("a", "c", "d", "g", "h")]
    return " ".join([*fields, f"({len(body)} bytes {body[:12]!r})" if body else ""])


def _text(properties: dict[str, str]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
