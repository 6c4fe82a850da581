"""Well-formed frames that ask a broker for what it must refuse, with the response code of RocketMQ's own checks."""

import struct

from proof.kit.wire import PULL_MESSAGE, QUERY_MESSAGE, SEND_MESSAGE_V2, VIEW_MESSAGE_BY_ID, pull_ext, send_ext
from tests.hostile.attack import Attack, request, send, without

SYSTEM_ERROR = 1
NOT_SUPPORTED = 3
MESSAGE_ILLEGAL = 13
NO_PERMISSION = 16
TOPIC_NOT_EXIST = 17
SUBSCRIPTION_PARSE_FAILED = 23
SUBSCRIPTION_GROUP_NOT_EXIST = 26
INVALID_PARAMETER = 29

HEART_BEAT = 34
UPDATE_CONSUMER_OFFSET = 15
CONSUMER_SEND_MSG_BACK = 36
LOCK_BATCH_MQ = 41
UPDATE_AND_CREATE_TOPIC = 17
GET_MAX_OFFSET = 30

UNKNOWN_CODES = [
    request("unknown code 9999", 9999, {}, NOT_SUPPORTED),
    request("code -1", -1, {}, NOT_SUPPORTED),
    request("code 0", 0, None, NOT_SUPPORTED),
    request("greatest code", 0x7FFFFFFF, {}, NOT_SUPPORTED),
]


def element(size: int = 30, body_length: int = 4, properties_length: int = 4) -> bytes:
    """One message of a batch body, with lengths that may lie."""
    head = struct.pack(">iiiii", size, 0, 0, 0, body_length)
    return head + b"body" + struct.pack(">h", properties_length) + b"k\x01v\x02"


BAD_TEXT = send("", None, b="tUTFt").data.replace(b"tUTFt", b"t\xff\xfet")

SENDS = [
    request("send without fields", SEND_MESSAGE_V2, None, SYSTEM_ERROR),
    *(
        request(f"send without field {name}", SEND_MESSAGE_V2, without(send_ext("hostile"), name), SYSTEM_ERROR)
        for name in "abe"
    ),
    send("queue id that is a word", SYSTEM_ERROR, e="first"),
    send("queue id beyond 32 bits", SYSTEM_ERROR, e="4294967296"),
    send("born timestamp that is a word", SYSTEM_ERROR, g="yesterday"),
    send("topic of no letters", INVALID_PARAMETER, b=""),
    send("topic of blanks", INVALID_PARAMETER, b="   "),
    send("topic with a blank", INVALID_PARAMETER, b="a topic"),
    send("topic that leaves the folder", INVALID_PARAMETER, b="../../etc/passwd"),
    send("topic with a zero byte", INVALID_PARAMETER, b="top\0ic"),
    send("topic in Chinese", INVALID_PARAMETER, b="\u4e3b\u9898"),
    send("topic of 128 letters", INVALID_PARAMETER, b="t" * 128),
    send("topic of a megabyte", INVALID_PARAMETER, b="t" * (1 << 20)),
    Attack(
        "topic in bad UTF-8", send("", None, b="tUTFt").data.replace(b"tUTFt", b"t\xff\xfe\xfdt"), INVALID_PARAMETER
    ),
    send("topic of the delay queues", NO_PERMISSION, b="SCHEDULE_TOPIC_XXXX"),
    send("topic of the half messages", NO_PERMISSION, b="RMQ_SYS_TRANS_HALF_TOPIC"),
    send("topic without a template", TOPIC_NOT_EXIST, b="hostile_no_template", c="no_such_template"),
    send("queue 99 of 4", INVALID_PARAMETER, e="99"),
    send("greatest queue id", INVALID_PARAMETER, e="2147483647"),
    send("body above 4 MiB", MESSAGE_ILLEGAL, body=b"x" * (4 * 1024 * 1024 + 1)),
    send("properties above 32,767 bytes", MESSAGE_ILLEGAL, i="k\x01" + "v" * 32_800 + "\x02"),
    send("batch of noise", MESSAGE_ILLEGAL, body=b"\xff" * 100, m="true"),
    send("batch of nothing", MESSAGE_ILLEGAL, body=b"", m="true"),
    send("batch cut off", MESSAGE_ILLEGAL, body=element() + element()[:-3], m="true"),
    send("batch whose size lies", MESSAGE_ILLEGAL, body=element(size=1 << 30), m="true"),
    send("batch whose body length lies", MESSAGE_ILLEGAL, body=element(body_length=-7), m="true"),
    send("batch whose properties length lies", MESSAGE_ILLEGAL, body=element(properties_length=-1), m="true"),
]

PULLS = [
    request("pull without fields", PULL_MESSAGE, {}, SYSTEM_ERROR),
    request("pull without an offset", PULL_MESSAGE, without(pull_ext("hostile", 0, 0), "queueOffset"), SYSTEM_ERROR),
    request("pull of queue 99", PULL_MESSAGE, pull_ext("hostile", 99, 0), INVALID_PARAMETER),
    request("pull of queue -1", PULL_MESSAGE, pull_ext("hostile", -1, 0), INVALID_PARAMETER),
    request("pull of an unknown topic", PULL_MESSAGE, pull_ext("hostile_unknown", 0, 0), TOPIC_NOT_EXIST),
    request(
        "pull by SQL that does not parse",
        PULL_MESSAGE,
        pull_ext("hostile", 0, 0, subscription="a > > (", expressionType="SQL92"),
        SYSTEM_ERROR,
    ),
    request("pull by no tag", PULL_MESSAGE, pull_ext("hostile", 0, 0, subscription="||"), SUBSCRIPTION_PARSE_FAILED),
]

OTHERS = [
    request("query without a key", QUERY_MESSAGE, {"topic": "hostile"}, SYSTEM_ERROR),
    request("view at offset -5", VIEW_MESSAGE_BY_ID, {"offset": "-5"}, SYSTEM_ERROR),
    request("view inside a record", VIEW_MESSAGE_BY_ID, {"offset": "13"}, SYSTEM_ERROR),
    request("view beyond the log", VIEW_MESSAGE_BY_ID, {"offset": str(1 << 62)}, SYSTEM_ERROR),
    request("heartbeat without a body", HEART_BEAT, None, SYSTEM_ERROR),
    request("heartbeat of noise", HEART_BEAT, None, SYSTEM_ERROR, b"\x00\xff{{{"),
    request("heartbeat that is a list", HEART_BEAT, None, SYSTEM_ERROR, b"[1,2,3]"),
    request("heartbeat nested 50,000 deep", HEART_BEAT, None, SYSTEM_ERROR, b'{"clientID":' + b"[" * 50_000),
    request("offset update without fields", UPDATE_CONSUMER_OFFSET, {}, SYSTEM_ERROR),
    request("send-back without fields", CONSUMER_SEND_MSG_BACK, {}, SYSTEM_ERROR),
    request("lock of noise", LOCK_BATCH_MQ, None, SYSTEM_ERROR, b"not json"),
    request("maximum offset of no queue", GET_MAX_OFFSET, {"topic": "hostile"}, SYSTEM_ERROR),
]

BROKER_ATTACKS = UNKNOWN_CODES + SENDS + PULLS + OTHERS
