"""Routes asked of a name server: a whole broker that shares out the queues of a topic on two brokers."""

from __future__ import annotations

import asyncio
import json

from bolide.node.routes.route_book import RouteBook
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue
from bolide.remoting.command import make_request
from bolide.testing.broker import Broker
from bolide.transport.client import ClientConnection
from proof.kit.waiting import PATIENCE


async def test_a_broker_asks_its_name_server() -> None:
    with Broker() as broker:
        broker.create_topic("T", queues=3)
        client = await ClientConnection.connect(broker.broker_addr, PATIENCE)
        heartbeat = {
            "clientID": "c",
            "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": []}],
            "producerDataSet": [],
        }
        await client.request(make_request(codes.HEART_BEAT, 0, body=json.dumps(heartbeat).encode()), PATIENCE)
        body = {
            "topic": "T",
            "consumerGroup": "g",
            "clientId": "c",
            "strategyName": "AVG",
            "messageModel": "CLUSTERING",
        }
        answer = await client.request(make_request(codes.QUERY_ASSIGNMENT, 0, body=json.dumps(body).encode()), PATIENCE)
        assert len(json.loads(answer.body)["messageQueueAssignments"]) == 3
        client.close()
        await client.wait_closed()


async def test_the_next_server_is_asked_and_a_missing_topic_is_none() -> None:
    with Broker() as broker:
        broker.create_topic("T", queues=2)
        told: asyncio.Queue[tuple[str, list[MessageQueue] | None]] = asyncio.Queue()
        book = RouteBook(f"127.0.0.1:1;{broker.namesrv_addr}", lambda topic, queues: told.put_nowait((topic, queues)))
        book.ask("T")
        book.ask("T")
        topic, queues = await asyncio.wait_for(told.get(), PATIENCE)
        assert topic == "T" and queues is not None
        assert [(queue.topic, queue.queue_id) for queue in queues] == [("T", 0), ("T", 1)]
        book.ask("Missing")
        assert await asyncio.wait_for(told.get(), PATIENCE) == ("Missing", None)
        assert told.empty()
        await book.stop()
