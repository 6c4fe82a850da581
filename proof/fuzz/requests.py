"""Requests to a broker or name server, decided by bytes: every code, with mostly sensible fields and bodies."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from typing import Final

from bolide.broker.options.composed import BrokerOptions
from bolide.declaration import settings_of, text_of
from bolide.layout.message_id import encode_host, offset_message_id
from bolide.namesrv.options import NamesrvOptions
from bolide.remoting import codes
from bolide.remoting.batch import BatchMessage, encode_batch
from bolide.remoting.command import Command, encode, make_request
from bolide.remoting.errors import FrameError
from bolide.remoting.headers.base import BOOL, TEXT, Field, Header
from bolide.remoting.recall_handle import encode_recall_handle
from proof.fuzz import seeds
from proof.fuzz.choices import Choices

TOPIC: Final = "T"
GROUP: Final = "g"
_HOST: Final = encode_host("10.0.0.2", 10911)
_PROPERTIES: Final = (
    "TAGS\x01a\x02KEYS\x01k\x02UNIQ_KEY\x010A000001000000000000000000000001\x02",
    "DELAY\x013\x02",
    "DELAY\x0199999999\x02",
    "TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01u1\x02",
    "TIMER_DELAY_SEC\x015\x02",
    "TIMER_DELIVER_MS\x011800000060000\x02",
    "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02",
    "WAIT\x01false\x02",
    "REAL_TOPIC\x01U\x02REAL_QID\x01x\x02",
    "a\x015\x02b\x01abc\x02",
    "MSG_TYPE\x01reply\x02CLUSTER\x01DefaultCluster\x02REPLY_TO_CLIENT\x01c@1\x02CORRELATION_ID\x01x\x02TTL\x013000\x02",
    "TIMER_DELAY_MS\x01-5\x02",
    "TIMER_DELIVER_MS\x019223372036854775807\x02",
    "DELAY\x01-1\x02",
    "CONSUME_START_TIME\x01x\x02",
    "INNER_NUM\x013\x02",
    "__CRC32#\x011234567890\x02",
    "DELAY\x01" + "9" * 30 + "\x02",
    "RETRY_TOPIC\x01../x\x02",
    "TIMER_ROLL_TIMES\x01x\x02",
    "TIMER_OUT_MS\x01x\x02REAL_TOPIC\x01T\x02",
    "TRAN_MSG\x01true\x02PGROUP\x01\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x01x\x02",
)
_TOPICS: Final = (
    TOPIC,
    TOPIC,
    TOPIC,
    "U",
    "%RETRY%g",
    "%DLQ%g",
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "rmq_sys_wheel_timer",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "%LMQ%a",
    "DefaultCluster_REPLY_TOPIC",
    "TBW102",
    "new",
    "OFFSET_MOVED_EVENT",
    "broker-a",
)
_GROUPS: Final = (GROUP, GROUP, "p", "CID_RMQ_SYS_TRANS", "%LMQ%a", "CID_ONSAPI_PULL", "new", "TOOLS_CONSUMER")
_BY_NAME: Final[dict[str, Sequence[str]]] = {
    "topic": _TOPICS,
    "b": _TOPICS,
    "originTopic": _TOPICS,
    "lmqTopic": _TOPICS,
    "namespace": ("ORDER_TOPIC_CONFIG", "n"),
    "consumerGroup": _GROUPS,
    "group": _GROUPS,
    "producerGroup": _GROUPS,
    "a": _GROUPS,
    "groupName": _GROUPS,
    "srcGroup": _GROUPS,
    "destGroup": _GROUPS,
    "properties": _PROPERTIES,
    "i": _PROPERTIES,
    "defaultTopic": ("TBW102", TOPIC),
    "c": ("TBW102", TOPIC),
    "subscription": ("*", "a || b", "a > 5", "a IS NULL AND b = 'abc'", "a > > ("),
    "expressionType": ("TAG", "SQL92", "", "X"),
    "clientID": ("c@1", "10.0.0.9@7"),
    "clientId": ("c@1", "10.0.0.9@7"),
    "brokerName": ("broker-a", "b"),
    "bname": ("broker-a", "b"),
    "clusterName": ("DefaultCluster", "x"),
    "key": ("k", "TAGS"),
    "brokerAddr": ("10.0.0.2:10911", "10.0.0.3:1", "x"),
    "haServerAddr": ("10.0.0.2:10912",),
    "topicFilterType": ("SINGLE_TAG", "MULTI_TAG", "x"),
    "attributes": ("+message.type=FIFO", "-message.type", "+bolide.hooks=x", "+reserve.time=5"),
    "boundaryType": ("LOWER", "UPPER", "x"),
    "msgId": (offset_message_id(_HOST, 0), offset_message_id(_HOST, 1 << 40), "u1"),
    "indexType": ("K", "U", "T", "x"),
    "topics": (TOPIC, "T;U"),
    "recallHandle": (encode_recall_handle(TOPIC, "broker-a", 1_800_000_060_000, "u1"),),
    "brokerNames": ("broker-a",),
    "statsName": ("TOPIC_PUT_NUMS",),
    "offsetMsgId": (offset_message_id(_HOST, 0), "0"),
    "originMsgId": ("u1",),
    "transactionId": ("u1", "x"),
    "statsKey": (TOPIC, "T@g"),
    "offset": ("0", "1", "500"),
    "commitLogOffset": ("0", "400", "800"),
    "tranStateTableOffset": ("0", "1", "2"),
    "isForce": ("true",),
    "commitOrRollback": ("0", "8", "12"),
    "sysFlag": ("0", "1", "2", "4", "8", "6", "14", "15"),
    "f": ("0", "1", "4", "8", "256", "48"),
    "queueId": ("0", "1", "-1"),
    "e": ("0", "1", "-1"),
    "maxMsgNums": ("1", "32"),
    "suspendTimeoutMillis": ("0", "500", "15000"),
    "timestamp": ("-1", "1"),
    "queueOffset": ("0", "1", "50"),
    "commitOffset": ("0", "1", "50"),
    "delayLevel": ("0", "3", "-1"),
    "readQueueNums": ("4", "1"),
    "writeQueueNums": ("4", "1"),
    "perm": ("6", "4", "2"),
    "queueIds": ("0", "0,1"),
    "bodyCrc32": ("0",),
    "lang": ("JAVA",),
    "d": ("4",),
    "defaultTopicQueueNums": ("4",),
    "count": ("5", "100"),
    "bornTimestamp": ("1800000000000",),
    "g": ("1800000000000",),
    "beginTimestamp": ("0",),
    "endTimestamp": ("9223372036854775807",),
    "maxNum": ("5", "64"),
}
"""What a sensible peer puts into the fields of this name."""

JSON_BODIES: Final = (
    b'{"clientID":"c@1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY",'
    b'"groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":[{"subString":"*","topic":"T","tagsSet":[],"codeSet":[],'
    b'"expressionType":"TAG"}]}],"producerDataSet":[{"groupName":"p"}]}',
    b'{"clientID":"c@2","consumerDataSet":[{"groupName":"g","messageModel":"BROADCASTING","subscriptionDataSet":[{"subString":'
    b'"a > 5 AND b = \'abc\'","topic":"T","expressionType":"SQL92","subVersion":1}]}]}',
    b'{"consumerGroup":"g","clientId":"c@1","mqSet":[{"topic":"T","brokerName":"broker-a","queueId":0}]}',
    b'{"topicConfigList":[{"topicName":"U","readQueueNums":4,"writeQueueNums":4,"perm":6,"attributes":{"+message.type":"FIFO"}}]}',
    b'{"groupConfigList":[{"groupName":"h","retryQueueNums":1}]}',
    b'{"groupName":"g","consumeEnable":true,"retryQueueNums":1,"retryMaxTimes":16,"groupRetryPolicy":{"type":"CUSTOMIZED",'
    b'"customizedRetryPolicy":{"next":[1000,5000]}},"subscriptionDataSet":[]}',
    b'{"topic":"T","consumerGroup":"g","clientId":"c@1","strategyName":"AVG","messageModel":"CLUSTERING"}',
    b'{"topic":"T","consumerGroup":"g","mode":"POP","popShareQueueNum":2}',
    b'{"clientId":"c@1","group":"g","subscriptionData":{"topic":"T","subString":"a > 5",'
    b'"expressionType":"SQL92"},"namespace":""}',
    b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5}}',
    b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"timestamp":5,"stateVersion":0},"topicConfigTable":{"T":{'
    b'"topicName":"T","readQueueNums":4,"writeQueueNums":4,"perm":6}}},"filterServerList":[]}',
    b'{"counter":1,"timestamp":5,"stateVersion":0}',
    b'{"correctionOffsets":{0:5}}',
    b'{"result":"CR_SUCCESS","spentTimeMills":1}',
    b"[]",
    b"null",
    b"{",
    b"{}",
)


@functools.cache
def bodies() -> tuple[bytes, ...]:
    """Bodies of all kinds of requests."""
    batch = encode_batch([BatchMessage(0, b"one", b"TAGS\x01a\x02"), BatchMessage(1, b"two", b"UNIQ_KEY\x01u\x02")])
    live = [f"{key}={text_of(each.default)}\n" for key, each in settings_of(BrokerOptions).items() if each.about.live]
    conf = [line.encode() for line in live] + [
        b"maxMessageSize=\\u00\n",
        b"maxMessageSize=x\n",
        b"unknown=1\n",
        b"brokerName=x",
    ]
    conf += [f"{key}={text_of(each.default)}\n".encode() for key, each in settings_of(NamesrvOptions).items()]
    return (
        *JSON_BODIES,
        b"hello",
        batch,
        batch[:-3],
        b"x" * 5000,
        zlib.compress(b"hello"),
        *conf,
        *seeds.registrations()[:6],
        *seeds.records()[:2],
    )


def frame_of(choices: Choices, table: Sequence[tuple[int, type[Header] | None]], opaque: int) -> tuple[int, bytes]:
    """The code and the bytes of one request."""
    code, kind = table[choices.below(len(table))]
    ext: dict[str, str] = {}
    for field in kind.fields() if kind is not None else ():
        how = choices.byte() % 16
        if how == 15 or (how > 9 and not field.required):
            continue
        ext[field.name] = odd_value(choices, field) if how == 14 else usual_value(choices, field)
    if choices.byte() % 16 == 15:
        ext[choices.text()] = choices.text()
    body = body_of(choices, code)
    oneway = choices.byte() % 16 == 15
    command = make_request(code, opaque, ext, body, oneway, choices.byte() % 2)
    if choices.byte() % 32 == 31:
        command.version = choices.number() & 0xFFFF
        command.language = choices.byte()
    return code, written(command)


def written(command: Command) -> bytes:
    """The frame, with everything left out that no frame can hold."""
    try:
        return encode(command)
    except (FrameError, UnicodeEncodeError):
        return encode(make_request(command.code, command.opaque, {}, command.body))


def usual_value(choices: Choices, field: Field) -> str:
    """What a peer sends there."""
    known = _BY_NAME.get(field.name)
    if known is not None:
        return choices.pick(known)
    if field.kind == BOOL:
        return choices.pick(("false", "true"))
    return choices.pick(("x", TOPIC, GROUP)) if field.kind == TEXT else choices.pick(("0", "1", "4", "100", "-1"))


def odd_value(choices: Choices, field: Field) -> str:
    """What a hostile peer sends there."""
    text = choices.text() if field.kind == TEXT or choices.flag() else str(choices.number())
    return text.encode("utf-8", "replace").decode()


def body_of(choices: Choices, code: int) -> bytes:
    """A body that suits the code, another code's, one with a byte changed, or noise."""
    how = choices.byte() % 16
    if how == 15:
        return choices.piece()
    body = bodies()[choices.pick(_SUITS[code]) % len(bodies())] if how < 8 and code in _SUITS else b""
    if not body and (how > 10 or code in _SUITS):
        body = choices.pick(bodies())
    if how == 14 and body:
        at = choices.below(len(body))
        body = body[:at] + choices.piece(8) + body[at + choices.below(8) :]
    return body


_SUITS: Final[dict[int, Sequence[int]]] = {
    codes.HEART_BEAT: (0, 1),
    codes.LOCK_BATCH_MQ: (2,),
    codes.UNLOCK_BATCH_MQ: (2,),
    codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (5,),
    codes.QUERY_ASSIGNMENT: (6,),
    codes.SET_MESSAGE_REQUEST_MODE: (7,),
    codes.CHECK_CLIENT_CONFIG: (8,),
    codes.REGISTER_BROKER: (10,),
    codes.QUERY_DATA_VERSION: (11,),
    codes.SEND_MESSAGE: (18,),
    codes.SEND_MESSAGE_V2: (18, 22),
    codes.SEND_BATCH_MESSAGE: (19, 20),
    codes.UPDATE_AND_CREATE_TOPIC_LIST: (3,),
    codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (4,),
    codes.UPDATE_BROKER_CONFIG: tuple(range(23, 60)),
    codes.UPDATE_NAMESRV_CONFIG: tuple(range(50, 90)),
}
"""Which of `bodies` a code is usually sent with."""
