import asyncio
import json
from typing import Any

import msgspec

from bolide.client import CodecContext, Message, Producer, PushConsumer, ReceivedMessage


class Order(msgspec.Struct):
    what: str
    count: int = 1


class Versions:
    """JSON. Messages without the property "version" have another form."""

    def encode(self, value: Any, context: CodecContext) -> bytes:
        return msgspec.json.encode(value)

    def decode(self, body: bytes, context: CodecContext) -> Any:
        if "version" in context.properties:
            return msgspec.json.decode(body, type=Order)
        count, what = json.loads(body)
        return Order(what, count)


async def main(namesrv: str = "") -> None:
    async with Producer("till", namesrv, codec={"Orders2": Versions(), "Notes": "json"}) as producer:
        await producer.send(Message("Orders2", b'[1, "tea"]'))
        await producer.send(Message("Orders2", value=Order("coffee", 2), properties={"version": "2"}))
        await producer.send(Message("Notes", value={"table": 7}))
    seen: list[Any] = []
    done = asyncio.Event()

    async def note(message: ReceivedMessage) -> None:
        seen.append(message.value)
        if len(seen) == 3:
            done.set()

    consumer = PushConsumer("kitchen", namesrv, start_from="first")
    consumer.subscribe("Orders2", "*", note, codec=Versions())
    consumer.subscribe("Notes", "*", note, codec="json")
    async with consumer:
        await done.wait()
    print(*sorted(map(str, seen)), sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
