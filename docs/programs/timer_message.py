import asyncio
from datetime import UTC, datetime, timedelta

from bolide.client import Message, Producer, PushConsumer, ReceivedMessage


async def main(namesrv: str = "") -> None:
    async with Producer("reminders", namesrv) as producer:
        await producer.send(Message("Reminders", b"tea is ready", delay=2))
        await producer.send(Message("Reminders", b"call home", deliver_at=datetime.now(UTC) + timedelta(seconds=1)))
        dropped = await producer.send(Message("Reminders", b"buy milk", delay=6))
        await producer.recall("Reminders", dropped.recall_handle)
        await producer.send(Message("Reminders", b"good night", delay=7))
    came: list[bytes] = []
    done = asyncio.Event()

    async def remind(message: ReceivedMessage) -> None:
        print(message.body.decode())
        came.append(message.body)
        if len(came) == 3:
            done.set()

    consumer = PushConsumer("me", namesrv, start_from="first")
    consumer.subscribe("Reminders", "*", remind)
    async with consumer:
        await done.wait()


if __name__ == "__main__":
    asyncio.run(main())
