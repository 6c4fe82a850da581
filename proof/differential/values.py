"""Values of header fields: plausible ones by the name of the field, odd ones by its type."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

FACTS: Final = Path(__file__).resolve().parents[2] / "tests" / "data" / "protocol" / "remoting.json"

OWN_TOPICS: Final = ("${T0}", "${T0}", "${T0}", "${T1}", "${T2}")
OWN_GROUPS: Final = ("${G0}", "${G0}", "${G1}")
SYSTEM_TOPICS: Final = (
    "TBW102", "SELF_TEST_TOPIC", "SCHEDULE_TOPIC_XXXX", "OFFSET_MOVED_EVENT", "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "BenchmarkTest", "DefaultCluster", "broker-a",
    "DefaultCluster_REPLY_TOPIC", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_SYNC_BROKER_MEMBER_broker-a",
)  # fmt: skip
ODD_NAMES: Final = (
    "", " ", "${T8} b", "${T8}/b", "../${T8}", "${T8}é", "日本${T8}", "${T8}.b", "%RETRY%${T8}", "%DLQ%${T8}",
    "%LMQ%${T8}", "%${T8}", "|${T8}", "${T8}^", "-${T8}", "${T8}\tb", "${T8}\x00b", "${long64}", "${long119}",
    "${long120}", "${long121}", "${long127}", "${long128}", "${long255}", "${long256}", "%RETRY%${long120}",
    "%RETRY%${long248}", "%RETRY%${long249}", "%DLQ%${long251}", "CID_RMQ_SYS_${T8}",
)  # fmt: skip
INTEGERS: Final = (
    "0", "-1", "1", "2", "-2", "3", "7", "8", "31", "32", "33", "127", "128", "255", "256", "1023", "1024", "32767",
    "65535", "65536", "2147483647", "-2147483648",
)  # fmt: skip
LONGS: Final = (
    "2147483648", "-2147483649", "4294967296", "9223372036854775807", "-9223372036854775808",
)  # fmt: skip
NO_INTEGERS: Final = (
    "", " ", "abc", "1a", " 1", "1 ", "+1", "-", "+", "1.0", "1e3", "0x10", "１", "٣", "1_0", "00", "-0", "null",
    "9223372036854775808", "99999999999999999999", "1L", "true",
)  # fmt: skip
BOOLEANS: Final = ("true", "false", "TRUE", "True", "yes", "1", "0", "", " true", "null")
EXPRESSIONS: Final = (
    "*", "*", "*", "TagA", "TagA || TagB", "TagA||TagB", "TagC", "", " ", "||", "TagA ||", "a > 5",
    "a = 5 AND b = 'x'", "a >", "a IS NOT NULL", "TAGS = 'TagA'", "KEYS CONTAINS 'k'",
)  # fmt: skip
ATTRIBUTES: Final = (
    "", "+message.type=NORMAL", "+message.type=FIFO", "+message.type=DELAY", "+message.type=TRANSACTION",
    "+message.type=X", "+queue.type=SimpleCQ", "+queue.type=BatchCQ", "+cleanup.policy=DELETE",
    "+cleanup.policy=COMPACTION", "+reserve.time=100", "+reserve.time=-1", "+a=b", "-a", "-message.type", "a=b", "+",
    "+message.type", "+message.type=NORMAL,+message.type=FIFO", "+message.type=NORMAL,-message.type", ",",
    "+lite.topic.expiration=5",
)  # fmt: skip
KEYS: Final = ("key0", "key1", "key2", "K#1", "key0 key1", "", "none", "${msgId:4}", "UNIQ${now}")

Plausible = Callable[[Random], str]


def _of(*values: str) -> Plausible:
    return lambda rng: rng.choice(values)


def _below(bound: int) -> Plausible:
    return lambda rng: str(rng.randrange(bound))


def topic(rng: Random) -> str:
    """A topic: mostly one of this run."""
    chance = rng.random()
    if chance < 0.82:
        return rng.choice(OWN_TOPICS)
    if chance < 0.92:
        return rng.choice(("%RETRY%", "%DLQ%")) + rng.choice(OWN_GROUPS)
    if chance < 0.96:
        return "${T9}"
    return rng.choice(SYSTEM_TOPICS)


def group(rng: Random) -> str:
    """A group: mostly one of this run."""
    return rng.choice(OWN_GROUPS) if rng.random() < 0.92 else "${G9}"


_CLIENT: Final = _of("${C0}", "${C0}", "${C1}", "${C9}")
_STEP_OFFSET: Final = _of("${physical:4}", "${physical:5}", "${physical:6}", "0", "99999999")
PLAUSIBLE: Final[dict[str, Plausible]] = {
    "topic": topic,
    "b": topic,
    "originTopic": topic,
    "parentTopic": topic,
    "consumerGroup": group,
    "group": group,
    "groupName": group,
    "producerGroup": group,
    "a": group,
    "srcGroup": group,
    "destGroup": group,
    "compareGroup": group,
    "filterGroups": group,
    "clientID": _CLIENT,
    "clientId": _CLIENT,
    "clientAddr": _of("", "${C0}", "127.0.0.1:1"),
    "defaultTopic": _of("TBW102", "TBW102", "TBW102", "${T0}", "${T9}"),
    "c": _of("TBW102", "TBW102", "${T0}", "${T9}"),
    "defaultTopicQueueNums": _of("4", "4", "1", "8", "16"),
    "d": _of("4", "4", "1", "8", "16"),
    "queueId": _below(3),
    "e": _below(3),
    "sysFlag": _of("0"),
    "f": _of("0", "0", "0", "0", "1", "2", "8"),
    "flag": _of("0", "7"),
    "h": _of("0", "0", "7", "-1"),
    "bornTimestamp": _of("${now}"),
    "g": _of("${now}", "0", "1795269600000"),
    "reconsumeTimes": _of("0", "1", "16", "17"),
    "j": _of("0", "1", "16", "17"),
    "maxReconsumeTimes": _of("16", "0", "-1", "3"),
    "l": _of("16", "0", "-1", "3"),
    "unitMode": _of("false", "true"),
    "k": _of("false", "false", "true"),
    "n": _of("broker-a"),
    "queueOffset": _below(5),
    "commitOffset": _below(6),
    "maxMsgNums": _of("1", "2", "32", "32", "64"),
    "suspendTimeoutMillis": _of("0"),
    "subVersion": _of("0", "0", "1", "${now}"),
    "subscription": _of(*EXPRESSIONS),
    "expressionType": _of("TAG", "TAG", "SQL92", "X", ""),
    "maxMsgBytes": _of("0", "1", "100000"),
    "requestSource": _of("0", "1"),
    "key": _of(*KEYS),
    "maxNum": _of("32", "1", "64"),
    "beginTimestamp": _of("0"),
    "indexType": _of("K", "U", "T", "X"),
    "endTimestamp": _of("9223372036854775807", "0"),
    "lastKey": _of("", "x"),
    "timestamp": _of("0", "-1", "9223372036854775807", "1", "9999999999999"),
    "boundaryType": _of("lower", "upper", "LOWER", "X"),
    "offset": _STEP_OFFSET,
    "delayLevel": _of("0", "0", "4", "5", "18", "-1"),
    "originMsgId": _of("${msgId:4}", "x"),
    "readQueueNums": _of("4", "2", "1", "3"),
    "writeQueueNums": _of("4", "2", "1", "3"),
    "perm": _of("6", "6", "6", "4", "2", "7"),
    "topicFilterType": _of("SINGLE_TAG", "SINGLE_TAG", "MULTI_TAG"),
    "topicSysFlag": _of("0", "0", "1", "2", "3"),
    "order": _of("false", "false", "true"),
    "attributes": _of(*ATTRIBUTES),
    "isForce": _of("true", "false"),
    "tranStateTableOffset": _of("${queueOffset:4}", "${queueOffset:5}", "0"),
    "commitLogOffset": _STEP_OFFSET,
    "commitOrRollback": _of("8", "8", "12", "12", "0"),
    "fromTransactionCheck": _of("false", "true"),
    "msgId": _of("${msgId:4}", "${msgId:5}", "x", ""),
    "transactionId": _of("${transactionId:4}", "x"),
    "committed": _of("true", "false"),
    "setZeroIfNotFound": _of("true", "false"),
    "offline": _of("true", "false"),
    "cleanOffset": _of("true", "false"),
    "removeOffset": _of("true", "false"),
    "readable": _of("true", "false"),
    "index": _below(5),
    "count": _of("1", "10", "0"),
    "isOrder": _of("true", "false"),
    "statsKey": topic,
    "statsName": _of(
        "TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "GROUP_GET_NUMS", "BROKER_PUT_NUMS", "NONE", "SNDBCK_PUT_NUMS"
    ),
    "topicList": _of("${T0}", "${T0};${T1}"),
    "recallHandle": _of("${recallHandle:4}", "x", ""),
    "namespace": _of("${T0}", "${T0}", "${T1}"),
    "value": _of("v", "v2", "", "a=b;c", "é\n"),
    "cluster": _of("${B0}", "DefaultCluster"),
    "brokerName": _of("${B0}", "${B0}", "${B1}"),
    "brokerAddr": _of("10.0.0.1:1", "10.0.0.2:1"),
    "clusterName": _of("${B0}", "${B1}"),
    "haServerAddr": _of("10.0.0.1:2"),
    "brokerId": _of("0", "0", "1", "2"),
    "enableActingMaster": _of("false", "true"),
    "heartbeatTimeoutMillis": _of("100000"),
    "heartbeatTimeoutMills": _of("100000"),
    "compressed": _of("false"),
    "bodyCrc32": _of("0", "0", "0", "5"),
    "acceptStandardJsonOnly": _of("true", "false"),
    "jstackEnable": _of("false"),
    "topicSeq": _of("0"),
    "groupSeq": _of("0"),
    "maxTopicNum": _of("100000"),
    "maxGroupNum": _of("100000"),
}
"""By the name of the field; a field that is not here is left out, or gets a value of its type."""

EXTRA: Final = ("bname", "ns", "nsd", "oway", "lo", "x-trace", "ReqT", "AccessKey", "Signature", "")


class Field(NamedTuple):
    """A field of a request header."""

    name: str
    type: str
    required: bool


@cache
def header_of(code: int) -> tuple[Field, ...]:
    """The fields of a request, as RocketMQ's header class declares them."""
    return _headers()[code]


@cache
def _headers() -> dict[int, tuple[Field, ...]]:
    facts = json.loads(FACTS.read_text(encoding="utf-8"))["requests"]
    return {
        entry["code"]: tuple(
            Field(each["name"], each["type"], bool(each.get("required")))
            for each in (entry.get("request_header") or {}).get("fields", [])
            if not each.get("inherited") and each.get("since") != "removed"
        )
        for entry in facts
    }


@cache
def served_by(server: str) -> frozenset[int]:
    """The codes that RocketMQ 5.5.0's broker or name server answers, by the facts."""
    facts = json.loads(FACTS.read_text(encoding="utf-8"))["requests"]
    return frozenset(entry["code"] for entry in facts if server in (entry.get("served_by") or ()))


@cache
def all_codes() -> tuple[int, ...]:
    """All request codes of the facts."""
    return tuple(sorted(_headers()))


def plausible(field: Field, rng: Random) -> str | None:
    """A value that a program sends; None leaves the field out."""
    if not field.required and rng.random() < 0.4:
        return None
    known = PLAUSIBLE.get(field.name)
    if known is not None:
        return known(rng)
    if not field.required:
        return None
    return {"int": "0", "long": "0", "bool": "false"}.get(field.type, "x")


def odd(field: Field, rng: Random) -> str | None:
    """A value at or beyond a limit; None leaves the field out."""
    if rng.random() < 0.25:
        return None
    if field.type in ("int", "long"):
        chance = rng.random()
        if chance < 0.5:
            return rng.choice(INTEGERS)
        return rng.choice(LONGS) if chance < 0.65 else rng.choice(NO_INTEGERS)
    if field.type == "bool":
        return rng.choice(BOOLEANS)
    return rng.choice(ODD_NAMES)
