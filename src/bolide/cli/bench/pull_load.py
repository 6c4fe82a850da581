"""The load of `bolide bench pull`, and a measurement of how often a broker copies each body.

The load uses the protocol directly, because otherwise the decoding of the consumer would be measured.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import time
import tracemalloc
from typing import TYPE_CHECKING, Final

from bolide.errors import BolideError
from bolide.layout.limits import DEFAULT_MAX_MESSAGE_SIZE
from bolide.layout.names import AUTO_CREATE_TOPIC
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.remoting.headers.send import SendMessageRequestHeaderV2

if TYPE_CHECKING:
    from bolide.transport.client import ClientConnection

GROUP: Final = "bolide-bench"
BATCH: Final = 32
TIMEOUT_S: Final = 10.0
JUDGED_BYTES: Final = DEFAULT_MAX_MESSAGE_SIZE - 4096
_PASS_SUBSCRIPTION: Final = 4


async def pull_load(
    namesrv: str, topic: str, seconds: float, body: int, messages: int, in_flight: int
) -> dict[str, object]:
    """Pull the messages of a queue repeatedly for the given seconds, and return the rates."""
    from bolide.admin import Admin
    from bolide.cli.terminal import output
    from bolide.client import Message, MessageQueue, Producer
    from bolide.transport.client import ClientConnection

    async with Producer(GROUP, namesrv, max_in_flight=512) as producer:
        first = (await producer.queues(topic))[0]
        queue = MessageQueue(topic, first.broker_name, first.queue_id)
        output.note(f"sending {messages:,} messages of {body:,} bytes to {queue} ...")
        content = os.urandom(body)  # random, so that the producer does not compress it
        await asyncio.gather(*(producer.send(Message(topic, content), queue=queue) for _ in range(messages)))
    async with Admin(namesrv) as admin:
        address = await admin.master_of(queue)
    connection = await ClientConnection.connect(address)
    try:
        output.note(f"measuring for {seconds:g} s ...")
        return await measure_pulls(connection, queue.topic, queue.queue_id, seconds, in_flight)
    finally:
        connection.close()
        await connection.wait_closed()


async def measure_pulls(
    connection: ClientConnection, topic: str, queue_id: int, seconds: float, in_flight: int
) -> dict[str, object]:
    """Return the rates over one connection, with `in_flight` concurrent pulls. Raises `BolideError` if a pull fails."""
    begin = time.perf_counter()
    until = begin + seconds
    pulls = got = 0

    async def loop(offset: int) -> None:
        nonlocal pulls, got
        while time.perf_counter() < until:
            answer = await connection.request(pull_request(topic, queue_id, offset), TIMEOUT_S)
            ext = answer.ext()
            if answer.code == codes.SUCCESS:
                pulls += 1
                got += len(answer.body)
                offset = int(ext["nextBeginOffset"])
            elif answer.code == codes.PULL_NOT_FOUND:
                offset = 0  # start over
            elif answer.code == codes.PULL_OFFSET_MOVED:
                offset = int(ext["nextBeginOffset"])
            else:
                raise BolideError(f"a pull failed with {codes.response_name(answer.code)}: {answer.remark}")

    await asyncio.gather(*(loop(number) for number in range(in_flight)))
    elapsed = time.perf_counter() - begin
    return {
        "pulls": pulls,
        "pulls_per_second": round(pulls / elapsed),
        "bytes_per_second": round(got / elapsed),
        "mean_answer_bytes": round(got / pulls) if pulls else 0,
    }


def pull_request(topic: str, queue_id: int, offset: int) -> Command:
    """Return a pull request for up to 32 messages that the broker does not hold."""
    ext = {
        "consumerGroup": GROUP,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(BATCH),
        "sysFlag": str(_PASS_SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subVersion": "0",
        "subscription": "*",
    }
    return make_request(codes.PULL_MESSAGE, 0, ext)


async def copies_of_a_body() -> float:
    """Return how often a broker of this installation copies a body between page cache and socket; 1.0 is once.

    Counts the allocations of a broker in this process while it serves a pull of one large message. The client is a
    socket that reads the bytes into existing memory.
    """
    from bolide.broker.options.composed import BrokerOptions
    from bolide.node.broker import BrokerNode
    from bolide.remoting.command import encode
    from bolide.transport.client import ClientConnection

    with tempfile.TemporaryDirectory(prefix="bolide-bench-") as folder:
        node = BrokerNode(
            BrokerOptions.of(
                store_path_root_dir=folder,
                listen_port=0,
                mapped_file_size_commit_log=16 * 1024 * 1024,
                max_hash_slot_num=1000,
                max_index_num=4000,
                flush_disk_type="ASYNC_FLUSH",  # a sync does not copy, so the measurement need not wait for it
            )
        )
        await node.start()
        try:
            client = await ClientConnection.connect(node.address)
            sent = SendMessageRequestHeaderV2(
                producer_group=GROUP,
                topic="Bench",
                default_topic=AUTO_CREATE_TOPIC,
                default_topic_queue_nums=1,
                queue_id=0,
                sys_flag=0,
                born_timestamp=1,
                flag=0,
                properties="",
            )
            request = make_request(codes.SEND_MESSAGE_V2, 0, sent.to_ext(), bytes(JUDGED_BYTES))
            stored = await client.request(request, TIMEOUT_S)
            client.close()
            await client.wait_closed()
            if stored.code != codes.SUCCESS:
                raise BolideError(f"the message for the measurement was not stored: {stored.remark}")
            return await asyncio.to_thread(_allocated, node.port, encode(pull_request("Bench", 0, 0)))
        finally:
            await node.stop()


def _allocated(port: int, request: bytes) -> float:
    """Return the peak of allocated bytes while the broker served a pull, as a multiple of the body."""
    room = memoryview(bytearray(JUDGED_BYTES + 65_536))
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as sock:
        _take(sock, request, room)  # exclude imports and allocations of the first pull
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            _take(sock, request, room)
            return round((tracemalloc.get_traced_memory()[1] - before) / JUDGED_BYTES, 2)
        finally:
            tracemalloc.stop()


def _take(sock: socket.socket, request: bytes, room: memoryview) -> None:
    """Send a request, and read the whole response into `room`."""
    sock.sendall(request)
    have, size = 0, 4
    while have < size:
        count = sock.recv_into(room[have:])
        if count == 0:
            raise BolideError("the broker closed the connection in the middle of a response")
        have += count
        if have >= 4:
            size = 4 + int.from_bytes(room[:4], "big")
