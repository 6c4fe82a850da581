import asyncio
import os

from bolide.client import Message, Producer, Retry


async def main(namesrv: str = "") -> None:
    os.environ["NAMESRV_ADDR"] = namesrv  # set by the deployment; used by a producer without an address
    async with Producer("orders", retry=Retry(latency_faults=True)) as producer:
        result = await producer.send(Message("Orders", b"one tea"))
    print(result.status.name)


if __name__ == "__main__":
    asyncio.run(main())
