"""An order that fails once, and an order that always fails."""

import asyncio

from bolide.client import DEAD_LETTER, Message, Producer, PullConsumer, PushConsumer, ReceivedMessage, RetryLater


async def main(namesrv: str = "") -> None:
    async with Producer("till", namesrv) as producer:
        await producer.send(Message("Snacks", b"toast", keys="order-2"))
        await producer.send(Message("Snacks", b"stone soup", keys="order-3"))
    cooked = asyncio.Event()
    given_up = asyncio.Event()

    async def cook(message: ReceivedMessage) -> None:
        if message.body == b"stone soup":
            given_up.set()
            raise RetryLater(DEAD_LETTER)  # no recipe: another attempt cannot help
        if message.reconsume_times == 0:
            raise RetryLater(1)  # the toaster is busy: again after level 1, one second
        print("cooked:", message.body.decode(), "at attempt", message.reconsume_times + 1)
        cooked.set()

    consumer = PushConsumer("snack-bar", namesrv, start_from="first")
    consumer.subscribe("Snacks", "*", cook)
    async with consumer:
        await cooked.wait()
        await given_up.wait()

    dead = PullConsumer("snack-bar-dead", namesrv, start_from="first")
    async with dead:
        await dead.assign(await dead.queues("%DLQ%snack-bar"))
        letters: list[ReceivedMessage] = []
        while not letters:
            letters = await dead.poll()
        print("dead letter:", letters[0].body.decode(), letters[0].keys)


if __name__ == "__main__":
    asyncio.run(main())
