import asyncio

from bolide.client import Message, Producer, PushConsumer, ReceivedMessage


async def main(namesrv: str = "") -> None:
    seen: dict[str, list[bytes]] = {}

    def tenant(name: str) -> tuple[Producer, PushConsumer]:
        async def take(message: ReceivedMessage) -> None:
            seen.setdefault(name, []).append(message.body)

        # Every member of a broadcasting group receives all messages and stores its own offsets.
        screen = PushConsumer("screens", namesrv, namespace=name, model="broadcasting", start_from="first")
        screen.subscribe("Orders", "*", take)
        return Producer("orders", namesrv, namespace=name), screen

    for name in ("acme", "zenith"):
        producer, screen = tenant(name)
        async with producer, screen:
            await producer.send(Message("Orders", f"for {name}".encode()))
            while name not in seen:
                await asyncio.sleep(0.01)
    print(seen)


if __name__ == "__main__":
    asyncio.run(main())
