"""The rows of a broker, and fields and bodies that suit a request of each code."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

from tools.generate_request_codes import broker_rows

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome
from bolide.remoting.request_routes import Row

FIELDS = {
    "a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "producerGroup": "pg",
    "topic": "T", "consumerGroup": "G", "group": "G", "groupName": "G", "destGroup": "D", "srcGroup": "S",
    "compareGroup": "G", "filterGroups": "F1,F2", "topicList": "T2;T3", "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "key": "k",
    "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1", "queueOffset": "0", "maxMsgNums": "1",
    "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "offset": "0", "delayLevel": "0",
    "timestamp": "0", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG",
    "order": "false", "tranStateTableOffset": "0", "commitLogOffset": "0", "commitOrRollback": "8", "msgId": "M",
    "clientID": "C", "clientId": "C", "statsName": "s", "statsKey": "k", "index": "0", "count": "1", "isOrder": "false",
    "recallHandle": "h", "isForce": "false", "readable": "true", "maxReconsumeTimes": "1",
}  # fmt: skip
LOCKS = {"consumerGroup": "G", "clientId": "C", "mqSet": [{"topic": "T", "brokerName": "b", "queueId": 0}]}
HEART = {
    "clientID": "C",
    "producerDataSet": [{"groupName": "pg"}],
    "consumerDataSet": [
        {"groupName": "G", "subscriptionDataSet": [{"topic": "T"}, {"topic": "%RETRY%G"}]},
        {"groupName": "%RETRY%H", "subscriptionDataSet": []},
    ],
}
BODIES: dict[int, Any] = {
    34: HEART,
    41: LOCKS,
    42: LOCKS,
    46: {"group": "G", "subscriptionData": {"topic": "T"}},
    400: {"topic": "T", "consumerGroup": "G"},
}


@cache
def rows() -> dict[int, Row[Channel, Outcome]]:
    return asyncio.run(broker_rows())
