"""What differs between two answers, after what must differ is made the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from proof.differential.sides import Answer, Names, Side
from proof.differential.steps import Step
from proof.differential.values import SYSTEM_TOPICS
from proof.reader.errors import Unreadable
from proof.reader.frames import Frame
from proof.reader.records import Record, read_properties, read_records
from proof.reader.tables import Value, canonical, read_json

RECORDS: Final = frozenset({11, 12, 33, 361})
PULLS: Final = frozenset({11, 361})
PROPERTIES: Final = frozenset({26, 319})
TEXTS: Final = frozenset({60})
TIMES: Final = frozenset({
    "storeTimestamp", "lastUpdateTimestamp", "lastTimestamp", "dataVersion", "mappingDataVersion", "bootTimestamp",
    "storeHost", "physicalOffset", "physicSize", "minTimeStamp", "maxTimeStamp", "consumeTimeStamp", "delayTime",
    "subVersion", "createTime", "lastUpdateTime", "timestamp", "phyOffset", "physicOffset", "stateVersion",
    "masterCommitLogMaxOffset", "timeStamp",
})  # fmt: skip
"""Keys of JSON and of records whose values say when, or where on the disk, something is."""
MESSAGE_ID: Final = re.compile("[0-9A-F]{32}(?:[0-9A-F]{24})?")
OF_A_RUN: Final = re.compile("df[0-9a-z]+x[0-9]+z")
WORD: Final = re.compile(r"\w+")
NOT_THERE: Final = "absent"


@dataclass(frozen=True)
class Difference:
    """Something that differs: where, and how each side has it."""

    at: str
    ours: str
    java: str

    def __str__(self) -> str:
        return f"{self.at}: Bolide {_short(self.ours)}, RocketMQ {_short(self.java)}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 300 else f"{text[:200]}... ({len(text)} characters)")


class Comparison:
    """Compares the answers to one step."""

    def __init__(self, step: Step, names: Names, ours: Side, java: Side) -> None:
        self._step = step
        self._names = names
        self._ours = ours
        self._java = java
        self._ext = step.filled(lambda name, number: names.value(name, number, ours))[0] or {}

    def differences(self, ours: Answer, java: Answer) -> list[Difference]:
        """What differs; nothing for two that are the same."""
        if isinstance(ours, str) or isinstance(java, str):
            said = [each if isinstance(each, str) else f"code {each.code} {each.remark}" for each in (ours, java)]
            return [] if said[0] == said[1] else [Difference("answer", *said)]
        found = [Difference("code", *(f"{each.code} {each.remark or ''}".strip() for each in (ours, java)))]
        if ours.code == java.code:
            found = [*self._remarks(ours, java), *self._exts(ours, java), *self._bodies(ours, java)]
            if ours.version != java.version:  # the language is that of the server
                found.append(Difference("version", str(ours.version), str(java.version)))
        return found

    # -- remarks and fields

    def _remarks(self, ours: Frame, java: Frame) -> Iterator[Difference]:
        texts = [self._plain(each.remark or "", side) for each, side in ((ours, self._ours), (java, self._java))]
        # The words before a limit, an object or the text of an exception are the same; docs/compatibility.md says so.
        if texts[0] != texts[1] and WORD.findall(texts[0])[:3] != WORD.findall(texts[1])[:3]:
            yield Difference("remark", ours.remark or "", java.remark or "")

    def _plain(self, text: str, side: Side) -> str:
        return " ".join(self._addresses(text.split("\nSee http")[0], side).split())

    def _addresses(self, text: str, side: Side) -> str:
        text = text.replace(side.broker, "<broker>").replace(side.namesrv, "<name server>")
        for address, name in side.clients(self._step.server).items():
            text = text.replace(address, name)
        return text

    def _exts(self, ours: Frame, java: Frame) -> Iterator[Difference]:
        for name in sorted({*ours.ext, *java.ext}):
            values = [
                self._field(name, each.ext.get(name, NOT_THERE), side)
                for each, side in ((ours, self._ours), (java, self._java))
            ]
            if values[0] != values[1]:
                yield Difference(f"ext.{name}", *values)

    def _field(self, name: str, value: str, side: Side) -> str:
        if value == NOT_THERE:
            return value
        if name == "msgId":
            return ",".join("<id>" if len(each) in (32, 56) else each for each in value.split(","))
        if name == "transactionId":
            return value if value in self._uniq_keys() or len(value) not in (32, 56) else "<digits>"
        if name in ("totalTopicNum", "totalGroupNum"):  # of other runs, too
            return "<number>"
        if name in ("indexLastUpdateTimestamp", "indexLastUpdatePhyoffset", "timestamp"):
            return "<number>" if value.isdigit() else value
        if name == "recallHandle":
            return "<handle>" if len(value) > 20 else value
        if name in ("queueOffset", "offset", "nextBeginOffset", "maxOffset", "minOffset") and self._is_shared():
            return "<number>" if value.lstrip("-").isdigit() else value
        if name in ("queueOffset", "queueId") and self._is_scattered():
            return "<number>"
        return self._addresses(value, side)

    def _uniq_keys(self) -> set[str]:
        return {value for name, value in self._sent_properties().items() if name == "UNIQ_KEY"}

    def _sent_properties(self) -> dict[str, str]:
        return read_properties(self._ext.get("i", self._ext.get("properties", "")))

    def _is_shared(self) -> bool:
        """Whether the request concerns a queue that other runs use, too."""
        topic = self._ext.get("topic", self._ext.get("b", ""))
        if topic in SYSTEM_TOPICS or topic.startswith("rmq_sys_") or not topic.startswith(("df", "%")):
            return True
        sent = self._sent_properties()
        return any(name.startswith(("DELAY", "TIMER_", "TRAN_MSG")) for name in sent) or self._step.code in (324, 325)

    def _is_scattered(self) -> bool:
        return self._ext.get("e", self._ext.get("queueId", "")).startswith("-")

    # -- bodies

    def _bodies(self, ours: Frame, java: Frame) -> list[Difference]:
        if ours.body == java.body or (self._step.code in PULLS and self._ext.get("topic", "") in SYSTEM_TOPICS):
            return []  # what lies in a queue that all runs share depends on where each run ended
        if self._step.code in TEXTS:
            return [] if len(ours.body) == len(java.body) else [Difference("body", str(ours.body), str(java.body))]
        try:
            values = [
                self._normal(self._read(each.body), side) for each, side in ((ours, self._ours), (java, self._java))
            ]
        except Unreadable as error:
            return [Difference("body", f"{ours.body[:200]!r} {error}", f"{java.body[:200]!r}")]
        return list(_walk("body", values[0], values[1]))

    def _read(self, body: bytes) -> Value:
        if not body:
            return None
        if self._step.code in RECORDS:
            return [_fields(record) for record in read_records(body)]
        if self._step.code in PROPERTIES:
            lines = body.decode("utf-8", "surrogateescape").splitlines()
            return {key: value for key, _, value in (line.partition("=") for line in lines)}
        return read_json(body)

    def _normal(self, value: Value, side: Side, key: str = "") -> Value:
        if key in TIMES:
            return value if isinstance(value, int) and value <= 0 else "<time>"
        if isinstance(value, dict):
            if value.get("topic") in SYSTEM_TOPICS and "queueOffset" in value:  # a record in a queue of all runs
                value = {**value, "queueOffset": "<number>"}
            named = ((self._addresses(name, side), each) for name, each in value.items())
            return {
                name: self._normal(each, side, name)
                for name, each in named
                if each is not None and not self._is_foreign(name)
            }
        if isinstance(value, list):
            each = [self._normal(one, side, key) for one in value if not self._is_foreign(one)]
            return each if self._step.code in RECORDS else sorted(each, key=canonical)
        return self._addresses(value, side) if isinstance(value, str) else value

    def _is_foreign(self, name: Value) -> bool:
        """Whether it is a name of another run, or a broker of one, of which a side may have kept something."""
        if isinstance(name, dict):
            name = name.get("brokerName")
        if not isinstance(name, str) or self._names.of("") in name:
            return False
        return OF_A_RUN.search(name) is not None or name.startswith(("%RETRY%", "%DLQ%")) or "@" in name


def _fields(record: Record) -> Value:
    """Return the fields of a record by the names that RocketMQ's JSON has for them."""
    return {
        "magic": record.magic, "queueId": record.queue_id, "flag": record.flag, "queueOffset": record.queue_offset,
        "physicalOffset": record.at, "sysFlag": record.sys_flag, "bornTimestamp": record.born_ms,
        "bornHost": record.born_host[:-4].hex(), "storeTimestamp": record.stored_ms,
        "storeHost": record.store_host.hex(), "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared, "body": record.body.decode("latin-1"), "topic": record.topic,
        "properties": {**record.properties},
    }  # fmt: skip


def _walk(at: str, ours: Value, java: Value) -> Iterator[Difference]:
    if isinstance(ours, dict) and isinstance(java, dict):
        for name in sorted({*ours, *java}):
            if name not in ours or name not in java:
                yield Difference(f"{at}.{name}", *(_said(each, name) for each in (ours, java)))
            else:
                yield from _walk(f"{at}.{name}", ours[name], java[name])
    elif isinstance(ours, list) and isinstance(java, list) and len(ours) == len(java):
        for place, (one, other) in enumerate(zip(ours, java, strict=True)):
            yield from _walk(f"{at}[{place}]", one, other)
    elif (ours != java or isinstance(ours, bool) != isinstance(java, bool)) and not _made_by_brokers(at, ours, java):
        yield Difference(at, canonical(ours), canonical(java))


def _made_by_brokers(at: str, ours: Value, java: Value) -> bool:
    """Whether both values are ids, or offsets in the log, that each broker makes of its own."""
    name = at.rpartition(".")[2]
    if name in ("UNIQ_KEY", "ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID", "__transactionId__"):
        return all(isinstance(each, str) and MESSAGE_ID.fullmatch(each) for each in (ours, java))
    if name == "preparedTransactionOffset":
        return all(isinstance(each, int) and each > 0 for each in (ours, java))
    return False


def _said(value: dict[str, Value], name: str) -> str:
    return canonical(value[name]) if name in value else NOT_THERE


def generalised(at: str) -> str:
    """A place without the names of a run and without numbers, by which differences are listed."""
    at = re.sub(r"df[0-9a-z]+x[0-9]+z([TGCB][0-9])", r"\1", at)
    return re.sub(r"\[[0-9]+\]", "[]", at)
