"""Messages whose bodies cannot be read, stored as they are."""

from __future__ import annotations

from collections.abc import Sequence

from bolide.remoting import codes
from bolide.remoting.command import make_request
from bolide.remoting.headers.send import SendMessageRequestHeader
from bolide.testing.broker import Broker
from bolide.transport.blocking import ClientConnection
from proof.kit.waiting import PATIENCE

ZLIB, NO_KIND = 1, 1 | 7 << 8
PLAIN = "a zlib body of 5 bytes cannot be inflated (Error -3 while decompressing data: incorrect header check)"


def put(broker: Broker, messages: Sequence[tuple[bytes, int]], born: int = 1, topic: str = "T") -> None:
    """Bodies and sys flags as they are, to the only queue of a topic."""
    broker.create_topic(topic, queues=1)
    with ClientConnection.connect(broker.broker_addr, PATIENCE) as connection:
        for body, sys_flag in messages:
            header = SendMessageRequestHeader("p", topic, "TBW102", 4, 0, sys_flag, born, 0)
            answer = connection.request(make_request(codes.SEND_MESSAGE, 0, header.to_ext(), body), 60)
            assert answer.code == codes.SUCCESS, answer.remark
