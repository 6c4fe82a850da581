import asyncio

from bolide.client import Message, Producer, PullConsumer, PushConsumer, ReceivedMessage, lmq


async def main(namesrv: str = "") -> None:
    async with Producer("chat", namesrv) as producer:
        # One message, stored once, in the queue of each person in the room.
        await producer.send(Message("Chat", b"hello all", light_queues=["ann", "bob", "cid"]))
        await producer.send(Message("Chat", b"hello bob", light_queues=["bob"]))

    received: list[bytes] = []
    done = asyncio.Event()

    async def take(message: ReceivedMessage) -> None:
        received.append(message.body)
        if len(received) == 2:
            done.set()

    bob = PushConsumer("bob-phone", namesrv, start_from="first")
    bob.subscribe(lmq("bob"), "*", take, parent="Chat")
    async with bob:
        await done.wait()
    print(received)

    async with PullConsumer("ann-phone", namesrv, start_from="first") as ann:
        queues = await ann.queues(lmq("ann"), parent="Chat")
        await ann.assign(queues, parent="Chat")
        print([message.body for message in await ann.poll()])


if __name__ == "__main__":
    asyncio.run(main())
