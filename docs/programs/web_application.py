import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bolide.client import BolideError, Message, Producer, PushConsumer, ReceivedMessage

brewed: list[str] = []


async def brew(message: ReceivedMessage) -> None:
    brewed.append(message.keys[0])


async def order(request: Request) -> JSONResponse:
    producer: Producer = request.app.state.producer
    key = request.path_params["key"]
    try:
        result = await producer.send(Message("Orders", await request.body(), tags="coffee", keys=key))
    except BolideError as error:
        return JSONResponse({"error": str(error)}, status_code=503 if error.retriable else 400)
    return JSONResponse({"message": result.message_id}, status_code=202)


async def orders(request: Request) -> JSONResponse:
    return JSONResponse(brewed)


def application(namesrv: str = "") -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        consumer = PushConsumer("kitchen", namesrv, start_from="first")
        consumer.subscribe("Orders", "coffee", brew)
        async with Producer("orders", namesrv) as app.state.producer, consumer:
            yield

    routes = [Route("/orders/{key}", order, methods=["POST"]), Route("/orders", orders)]
    return Starlette(routes=routes, lifespan=lifespan)


if __name__ == "__main__":
    import uvicorn

    asyncio.run(uvicorn.Server(uvicorn.Config(application())).serve())
