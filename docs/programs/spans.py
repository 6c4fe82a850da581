import asyncio
import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from bolide.client import Message, OpenTelemetry, Producer, PushConsumer, ReceivedMessage


async def main(namesrv: str = "") -> None:
    provider = TracerProvider()
    shown = ConsoleSpanExporter(
        out=sys.stdout, formatter=lambda span: f"{span.name}, {'a child' if span.parent else 'the first'}\n"
    )
    provider.add_span_processor(SimpleSpanProcessor(shown))
    spans = (OpenTelemetry(provider),)  # without a provider: the global one
    done = asyncio.Event()

    async def cook(message: ReceivedMessage) -> None:
        done.set()

    consumer = PushConsumer("kitchen", namesrv, start_from="first", interceptors=spans)
    consumer.subscribe("Spans", "*", cook)
    async with Producer("orders", namesrv, interceptors=spans) as producer:
        await producer.send(Message("Spans", b"one coffee"))
        async with consumer:
            await done.wait()


if __name__ == "__main__":
    asyncio.run(main())
