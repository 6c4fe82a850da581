import asyncio
import os

from bolide.client import Message, Producer


async def main(namesrv: str = "") -> None:
    os.environ["NAMESRV_ADDR"] = namesrv  # as a deployment sets it; a producer without an address looks there
    async with Producer("orders", latency_faults=True) as producer:
        result = await producer.send(Message("Orders", b"one tea"))
    print(result.status.name)


if __name__ == "__main__":
    asyncio.run(main())
