"""Bodies of requests: messages, batches, and the JSON of the codes that take some; odd ones among them."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Final

from proof.differential import values

Maker = Callable[[Random], object]
FORM: Final = values.ODD_NAMES

PROPERTY_NAMES: Final = (
    "TAGS", "KEYS", "WAIT", "UNIQ_KEY", "a", "b", "DELAY", "TRAN_MSG", "PGROUP", "RETRY_TOPIC", "REAL_TOPIC",
    "REAL_QID", "MIN_OFFSET", "MAX_OFFSET", "ORIGIN_MESSAGE_ID", "TRANSFER_FLAG", "RECONSUME_TIME",
    "MAX_RECONSUME_TIMES", "MSG_REGION", "TRACE_ON", "CONSUME_START_TIME", "INNER_NUM", "INNER_BASE",
    "CHECK_IMMUNITY_TIME_IN_SECONDS", "TRAN_PREPARED_QUEUE_OFFSET", "__transactionId__", "TRANSACTION_CHECK_TIMES",
    "INSTANCE_ID", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "ARRIVE_TIME", "CLUSTER", "MSG_TYPE", "POP_CK",
    "1ST_POP_TIME", "__SHARDINGKEY", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET", "TIMER_DELAY_SEC",
    "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "TIMER_ROLL_TIMES", "__CRC32#", "DLQ_ORIGIN_TOPIC",
    "_SYS_MSG_PRIORITY_", "__LITE_TOPIC", "ORIGIN_GROUP", "BORN_TIMESTAMP", "__BORNHOST", "DUP_INFO",
    "EXTEND_UNIQ_INFO", "__RMQ.TRANSIENT.TOPIC_SYS_FLAG",
)  # fmt: skip
PROPERTY_VALUES: Final = (
    "TagA", "key0", "key1 key2", "true", "false", "0", "-1", "3", "19", "x", "${T0}", "${G0}", "%LMQ%x", "é", "a b",
    "1.5", "99999999999999999999", "9223372036854775807", " ", "{}", "127.0.0.1:1", "UNIQ${now}",
)  # fmt: skip


def properties(rng: Random) -> str:
    """The properties of a message: plausible, or with separators missing, names twice, reserved, or long."""
    chance = rng.random()
    pairs = [("TAGS", rng.choice(("TagA", "TagB", "TagC"))), ("KEYS", rng.choice(("key0", "key1", "key1 key2")))]
    if chance < 0.3:
        pairs.append(("UNIQ_KEY", f"{rng.randrange(1 << 64):016X}{rng.randrange(1 << 64):016X}"))
    if chance < 0.1:
        pairs.append(("WAIT", rng.choice(("true", "false"))))
    if 0.45 < chance < 0.52:
        pairs.append(("DELAY", rng.choice(("5", "6", "18", "19", "100", "0", "-1", "x", "5.0", ""))))
    if 0.52 < chance < 0.55:
        pairs.append(("TIMER_DELAY_SEC", rng.choice(("3600", "100", "0", "-1", "x", "259201", "260000"))))
    if 0.55 < chance < 0.57:
        pairs.append(("TIMER_DELIVER_MS", rng.choice(("${later}", "0", "-1", "x", "9223372036854775807"))))
    if 0.57 < chance < 0.65:
        pairs += [("TRAN_MSG", rng.choice(("true", "true", "true", "TRUE", "false"))), ("PGROUP", "${G0}")]
    if chance > 0.75:
        pairs += [(rng.choice(PROPERTY_NAMES), rng.choice(PROPERTY_VALUES)) for _ in range(rng.randint(1, 3))]
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs)
    if chance > 0.9:
        text = rng.choice((_broken, _broken, _long))(text, rng)
    return text


def _broken(text: str, rng: Random) -> str:
    return rng.choice((
        text[:-1], text + "a", text + "\x01\x02", text + "\x02\x02", text + "a\x01\x02", text + "\x01b\x02",
        text + "ab\x02", text + "a\x01b\x01c\x02", "\x02" + text, "\x01" + text, text.replace("\x02", ""), text * 2, "",
        text + "TAGS\x01Other\x02", text + "c\x01d", "x",
    ))  # fmt: skip


def _long(text: str, rng: Random) -> str:
    size = rng.choice((32767, 32768, 32400, 40000, 65536))  # Java adds an id of 32 or 56 digits
    return text + "z\x01" + "v" * max(size - len(text) - 3, 1) + "\x02"


def message(rng: Random) -> str:
    """The body of a message."""
    chance = rng.random()
    if chance < 0.85:
        return f"message {rng.randrange(1000)}"
    if chance < 0.925:
        return rng.choice(("x", "é日本", "\x00\x01", "b" * 5000, "{}"))
    return "" if chance < 0.93 else "B" * rng.choice((10_000, 65_536, 4_194_304, 4_194_305))


def batch(rng: Random) -> str:
    """The body of a batch, a byte a character; sometimes with a length that is wrong."""
    parts = []
    for number in range(rng.choice((1, 2, 2, 3, 5))):
        text = properties(rng).encode("ascii", "replace").decode("ascii")
        text = "TAGS\x01TagA\x02" if "$" in text or len(text) > 32767 else text
        body = f"part {number}"
        parts.append(
            _int(22 + len(body) + len(text)) + _int(0) + _int(0) + _int(0) + _int(len(body)) + body
            + chr(len(text) >> 8) + chr(len(text) & 0xFF) + text
        )  # fmt: skip
    whole = "".join(parts)
    if rng.random() < 0.15:
        whole = rng.choice((whole[:-1], whole + "x", whole[:10], "", "\0\0\0\5" + whole[4:], "\x7f" + whole[1:]))
    return whole


def _int(value: int) -> str:
    return value.to_bytes(4, "big").decode("latin-1")


def _queue(rng: Random) -> dict[str, object]:
    name = rng.choice(("broker-a", "broker-a", "broker-a", "${B0}"))
    return {"topic": values.topic(rng), "brokerName": name, "queueId": rng.choice((0, 1, 2, 3, -1, 100))}


def _locks(rng: Random) -> object:
    client = rng.choice(("${C0}", "${C0}", "${C1}"))
    mq_set = [_queue(rng) for _ in range(rng.randint(0, 3))]
    return {"consumerGroup": values.group(rng), "clientId": client, "mqSet": mq_set, "onlyThisBroker": False}


def _subscription(rng: Random) -> dict[str, object]:
    text = rng.choice(("*", "*", "TagA", "TagA || TagB", ""))
    tags = [] if text in ("*", "") else text.split(" || ")
    return {
        "topic": values.topic(rng),
        "subString": text,
        "tagsSet": tags,
        "codeSet": [2598919, 2598920][: len(tags)],
        "subVersion": rng.choice((1, 2, 0)),
        "expressionType": "TAG",
        "classFilterMode": False,
    }


def heartbeat(rng: Random) -> object:
    """What a client says of itself."""
    consumers: list[object] = []
    names = {values.group(rng) for _ in range(rng.choice((0, 1, 1, 1, 2)))}
    for name in sorted(names):  # of a group that is there twice, Java takes the one that its set has last
        consumers.append(
            {
                "groupName": name,
                "consumeType": rng.choice(("CONSUME_PASSIVELY", "CONSUME_ACTIVELY")),
                "messageModel": rng.choice(("CLUSTERING", "CLUSTERING", "BROADCASTING")),
                "unitMode": False,
                "consumeFromWhere": rng.choice(("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET")),
                "subscriptionDataSet": [_subscription(rng) for _ in range(rng.choice((0, 1, 1, 2)))],
            }
        )
    producers = [{"groupName": values.group(rng)} for _ in range(rng.choice((0, 1)))]
    return {
        "clientID": rng.choice(("${C0}", "${C0}", "${C1}")),
        "consumerDataSet": consumers,
        "producerDataSet": producers,
        "heartbeatFingerprint": 0,
        "withoutSub": False,
        "useHeartbeatV2": False,
        "isWithoutSub": False,
    }


def _topic_config(rng: Random) -> dict[str, object]:
    return {
        "topicName": values.topic(rng),
        "readQueueNums": rng.choice((1, 2, 4, 0, -1)),
        "writeQueueNums": rng.choice((1, 2, 4)),
        "perm": rng.choice((6, 6, 4, 2, 7, 0)),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": rng.choice((False, True)),
        "attributes": rng.choice(({}, {}, {"+message.type": "NORMAL"}, {"x": "y"})),
    }


def _topics(rng: Random) -> object:
    return {"topicConfigList": [_topic_config(rng) for _ in range(rng.choice((0, 1, 2)))]}


def subscription_group(rng: Random) -> dict[str, object]:
    """A group's settings."""
    found: dict[str, object] = {
        "groupName": values.group(rng),
        "consumeEnable": rng.random() < 0.9,
        "consumeFromMinEnable": True,
        "consumeBroadcastEnable": rng.random() < 0.8,
        "consumeMessageOrderly": rng.choice((False, True)),
        "retryQueueNums": rng.choice((1, 1, 1, 0)),
        "retryMaxTimes": rng.choice((16, 16, 0, 1, -1)),
        "brokerId": 0,
        "whichBrokerWhenConsumeSlowly": 1,
        "notifyConsumerIdsChangedEnable": rng.random() < 0.9,
    }
    if rng.random() < 0.3:
        found["groupSysFlag"] = rng.choice((0, 1))
        found["consumeTimeoutMinute"] = rng.choice((15, 0, -1))
    if rng.random() < 0.2:
        found["attributes"] = rng.choice(({}, {"+a": "b"}, {"a": "b"}, {"+lite.sub.mode": "Shared"}))
    return found


def _groups(rng: Random) -> object:
    return {"groupConfigList": [subscription_group(rng) for _ in range(rng.choice((0, 1, 2)))]}


def _check_client(rng: Random) -> object:
    subscription = _subscription(rng)
    subscription["expressionType"] = rng.choice(("TAG", "SQL92", "X"))
    subscription["subString"] = rng.choice(values.EXPRESSIONS)
    return {"clientId": "${C0}", "group": values.group(rng), "namespace": "", "subscriptionData": subscription}


def _assignment(rng: Random) -> object:
    return {
        "topic": values.topic(rng),
        "consumerGroup": values.group(rng),
        "clientId": rng.choice(("${C0}", "${C1}")),
        "strategyName": rng.choice(("AVG", "AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "X")),
        "messageModel": rng.choice(("CLUSTERING", "BROADCASTING")),
    }


def _mode(rng: Random) -> object:
    return {
        "topic": rng.choice(values.OWN_TOPICS),
        "consumerGroup": values.group(rng),
        "mode": rng.choice(("PULL", "PULL", "PULL", "X")),
        "popShareQueueNum": rng.choice((0, 0, -1, 3)),
    }


_VERSION: Final = {"timestamp": 1795269600000, "counter": 1, "stateVersion": 0}


def registration(rng: Random) -> object:
    """The topics of a broker that registers."""
    table = {}
    for name in ("${T0}", "${T1}", "${T2}")[: rng.choice((0, 2, 2, 3))]:  # not one: it is refused, and Java keeps half
        config = _topic_config(rng)
        config["topicName"] = name
        config["topicSysFlag"] = int(name[3])  # the same at all brokers: a list goes by that of any of them
        table[str(config["topicName"])] = config
    version = {**_VERSION, "counter": rng.choice((1, 1, 2, 3))}
    wrapper = {"topicConfigTable": table, "dataVersion": version}
    return {"topicConfigSerializeWrapper": wrapper, "filterServerList": []}


def _route(rng: Random) -> object:
    queue = {
        "brokerName": "${B0}",
        "readQueueNums": 2,
        "writeQueueNums": 2,
        "perm": rng.choice((6, 4)),
        "topicSysFlag": 0,
    }
    return {"queueDatas": [queue][: rng.choice((0, 1, 1))], "brokerDatas": [], "filterServerTable": {}}


JSON_BODIES: Final[dict[int, Maker]] = {
    18: _topics, 34: heartbeat, 41: _locks, 42: _locks, 46: _check_client, 103: registration,
    200: subscription_group, 217: _route, 225: _groups, 322: lambda rng: {**_VERSION, "counter": rng.choice((1, 2))},
    400: _assignment, 401: _mode,
}  # fmt: skip
CONFIG: Final = (
    "noSuchKey=1\n", "maxMessageSize=abc\n", "brokerConfigPath=/x\n", "haMasterAddress\n", "=\n", "\n", "x",
    "configBlackList=a\n", "rocketmqHome=/x\n", "kvConfigPath=/x\n", "configStorePathName=/x\n",
    "# only a comment\n",
)  # fmt: skip
"""No name servers: with an empty list Java's broker registers nowhere, and its route ends minutes later."""


def body_of(code: int, rng: Random, oddness: float) -> str:
    """A body for a request; the more odd, the greater `oddness`."""
    if code in (10, 310, 324, 325):
        return message(rng)
    if code == 320:
        return batch(rng)
    if code in (25, 318):
        return rng.choice(CONFIG)
    maker = JSON_BODIES.get(code)
    if maker is None:
        return "" if rng.random() < 0.95 else "unexpected"
    value = maker(rng)
    if rng.random() >= oddness:
        return json.dumps(value, ensure_ascii=False)
    return _odd_json(value, rng)


def _odd_json(value: object, rng: Random) -> str:
    if isinstance(value, dict) and value and rng.random() < 0.75:
        name = rng.choice(sorted(value))
        if rng.random() < 0.4:
            changed = {key: each for key, each in value.items() if key != name}
        else:
            odd: tuple[object, ...] = (None, "", -1, 1 << 31, 1 << 63, "x", [], {}, True, 1.5, *FORM[:12])
            if isinstance(value[name], bool):
                odd = (None, "", True, False, "x", "true", [])
            changed = {**value, name: rng.choice(odd)}
        return json.dumps(changed, ensure_ascii=False)
    text = json.dumps(value, ensure_ascii=False)
    return rng.choice(("", "null", "{}", "[]", "x", text[:-1], text + "x", f"[{text}]", '"x"', "1"))
