import asyncio

import msgspec

from bolide.client import Interceptor, Message, Producer, PushConsumer, ReceivedMessage, SendCall


class Order(msgspec.Struct):
    what: str
    count: int = 1


class Stamp(Interceptor):
    """Adds a property to each message, and prints the result of the send."""

    def before_send(self, call: SendCall) -> None:
        call.message.properties = {**call.message.properties, "from": "till-3"}

    def after_send(self, call: SendCall) -> None:
        print(call.message.topic, "sent" if call.error is None else call.error)


async def main(namesrv: str = "") -> None:
    async with Producer("orders", namesrv, codec=Order, interceptors=(Stamp(),)) as producer:
        await producer.send(Message("Typed", value=Order("coffee", 2)))
    done = asyncio.Event()

    async def cook(message: ReceivedMessage) -> None:
        order = message.value_as(Order)
        print(order.count, order.what, message.properties["from"])
        done.set()

    consumer = PushConsumer("kitchen", namesrv, start_from="first", codec=Order)
    consumer.subscribe("Typed", "*", cook)
    async with consumer:
        await done.wait()


if __name__ == "__main__":
    asyncio.run(main())
