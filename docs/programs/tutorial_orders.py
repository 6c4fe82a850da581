"""Take an order, and cook it."""

import asyncio
from dataclasses import dataclass

from bolide.client import Message, Producer, PushConsumer, ReceivedMessage


@dataclass
class Order:
    number: str
    drink: str


async def main(namesrv: str = "") -> None:
    async with Producer("till", namesrv, codec=Order) as producer:
        sent = await producer.send(Message("Drinks", value=Order("order-1", "coffee"), tags="hot", keys="order-1"))
        print("stored:", sent.status.name)
    done = asyncio.Event()

    async def cook(message: ReceivedMessage) -> None:
        order = message.value_as(Order)
        print("cooking:", order.number, order.drink)
        done.set()

    consumer = PushConsumer("kitchen", namesrv, start_from="first", codec=Order)
    consumer.subscribe("Drinks", "hot", cook)
    async with consumer:
        await done.wait()


if __name__ == "__main__":
    asyncio.run(main())
