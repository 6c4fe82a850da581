"""What a producer and a consumer read from the route of a topic."""

from __future__ import annotations

import pytest

from bolide.client.instance.routes import QueueInfo, decode_route
from bolide.client.messages.queue import MessageQueue
from bolide.errors import ProtocolError

ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"b","cluster":"c"}],'
    b'"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":2,"writeQueueNums":1,"topicSysFlag":0}],'
    b'"filterServerTable":{}}'
)


def test_a_route_of_javas_json_is_read() -> None:
    route = decode_route("T", ROUTE)
    assert route.queues == (QueueInfo("b", 2, 1, 6),)
    assert route.brokers == {"b": {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}}
    assert (route.clusters, route.order_conf) == ({"b": "c"}, "")
    assert route.write_queues() == [MessageQueue("T", "b", 0)]
    assert route.read_queues() == [MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]


def test_null_collections_are_empty() -> None:
    route = decode_route("T", b'{"queueDatas":null,"brokerDatas":null,"orderTopicConf":"b:2"}')
    assert route.queues == () and route.brokers == {}
    assert route.write_queues() == [MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{", b'{"queueDatas":[{"perm":6}]}', b'{"queueDatas":7}', b'{"brokerDatas":[{}]}'],
)
def test_a_route_that_cannot_be_read_is_an_error_of_the_protocol(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="^the route of topic T cannot be read: "):
        decode_route("T", body)
