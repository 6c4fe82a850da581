import asyncio

from bolide.client import Message, Producer
from bolide.errors import BolideError


async def main(namesrv: str = "") -> None:
    async with Producer("shop", namesrv, access_key="admin", secret_key="change-this-1") as producer:
        result = await producer.send(Message("orders", b"one coffee"))
        print(result.status.name)
    async with Producer("thief", namesrv, access_key="admin", secret_key="a guess") as producer:
        try:
            await producer.send(Message("orders", b"one coffee"))
        except BolideError as refused:
            print(refused)


if __name__ == "__main__":
    asyncio.run(main())
