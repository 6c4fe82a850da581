import asyncio

from bolide.client import ConsumeResult, Message, Producer, PushConsumer, ReceivedMessage


async def main(namesrv: str = "") -> None:
    async with Producer("trading", namesrv) as producer:
        # Messages with one sharding key go to one queue, and an orderly consumer gets them one by one.
        for step in (b"placed", b"paid", b"shipped"):
            await producer.send(Message("Trades", step, keys="trade-1", sharding_key="trade-1"))
    steps: list[bytes] = []
    done = asyncio.Event()

    async def take(message: ReceivedMessage) -> ConsumeResult:
        steps.append(message.body)
        if len(steps) == 3:
            done.set()
        return ConsumeResult.SUCCESS

    consumer = PushConsumer("ledger", namesrv, start_from="first", orderly=True)
    consumer.subscribe("Trades", "*", take)
    async with consumer:
        await done.wait()
    print(steps)


if __name__ == "__main__":
    asyncio.run(main())
