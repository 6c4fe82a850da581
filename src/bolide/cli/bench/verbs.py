"""`bolide bench`: how fast a running broker accepts and delivers messages, with Bolide's client as the load.

The client is Python and shares the host, so the rates are lower bounds. `make bench` in a checkout compares with Java's
broker, with a load that is not the bottleneck.
"""

from __future__ import annotations

import asyncio
import time

import typer

from bolide.cli.bench import spark as bench_spark
from bolide.cli.contexts import completions
from bolide.cli.contexts.options import Namesrv
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.layout.limits import DEFAULT_MAX_MESSAGE_SIZE
from bolide.layout.names import BENCHMARK_TOPIC

app = typer.Typer()
bench_spark.attach(app)


@app.callback()
def bench() -> None:
    """Measure rates of a broker or of Spark."""


@app.command()
def send(
    namesrv: str = Namesrv,
    topic: str = typer.Option(BENCHMARK_TOPIC, help="Topic to send to.", autocompletion=completions.topics),
    seconds: float = typer.Option(10.0, min=0.5, help="How long."),
    in_flight: int = typer.Option(512, min=1, max=65_536, help="Maximum number of unacknowledged messages."),
    body: int = typer.Option(128, min=1, max=DEFAULT_MAX_MESSAGE_SIZE, help="Bytes of a body."),
    as_json: bool = JsonFlag,
) -> None:
    """Send as fast as one Python process can, and show rate and latencies."""
    with boundary():
        figures = asyncio.run(_send(namesrv, topic, seconds, in_flight, body))
        output.pairs("Send", figures, as_json)


async def _send(namesrv: str, topic: str, seconds: float, in_flight: int, body: int) -> dict[str, object]:
    from bolide.client import Message, Producer

    content = bytes(body - 1) + b"x"
    latencies: list[float] = []
    failed = 0
    async with Producer("bolide-bench", namesrv, max_in_flight=in_flight) as producer:
        await producer.queues(topic)
        begin = time.perf_counter()
        until = begin + seconds

        async def loop() -> None:
            nonlocal failed
            while (sent := time.perf_counter()) < until:
                try:
                    await producer.send(Message(topic, content))
                    latencies.append(time.perf_counter() - sent)
                except Exception as error:
                    failed += 1
                    if failed == 1:
                        output.note(f"bolide: the first failed send: {error}")

        output.note(f"measuring for {seconds:g} s ...")
        await asyncio.gather(*(loop() for _ in range(in_flight)))
        elapsed = time.perf_counter() - begin
    latencies.sort()
    return {
        "messages": len(latencies),
        "failed": failed,
        "messages_per_second": round(len(latencies) / elapsed),
        "p50_ms": percentile(latencies, 0.50),
        "p99_ms": percentile(latencies, 0.99),
        "max_ms": percentile(latencies, 1.0),
    }


@app.command()
def pull(
    namesrv: str = Namesrv,
    topic: str = typer.Option(
        BENCHMARK_TOPIC, help="Topic to read; missing messages are sent first.", autocompletion=completions.topics
    ),
    seconds: float = typer.Option(10.0, min=0.5, help="How long."),
    body: int = typer.Option(4096, min=1, max=DEFAULT_MAX_MESSAGE_SIZE, help="Bytes of a body."),
    messages: int = typer.Option(2000, min=1, help="Messages that the topic must contain."),
    in_flight: int = typer.Option(16, min=1, max=4096, help="Maximum number of pulls in flight."),
    as_json: bool = JsonFlag,
) -> None:
    """Pull the same messages repeatedly, and show the rate, and how often a broker copies a body."""
    with boundary():
        from bolide.cli.bench.pull_load import copies_of_a_body, pull_load
        from bolide.node.process.daemon import new_runner

        figures = asyncio.run(pull_load(namesrv, topic, seconds, body, messages, in_flight))
        with new_runner() as loop:  # the loop of the daemons, as in a broker
            figures["copies_per_body"] = loop.run(copies_of_a_body())
        output.pairs("Pull", figures, as_json)


def percentile(sorted_seconds: list[float], share: float) -> float | None:
    """Return a percentile of latencies in ms, or None if there are no latencies."""
    if not sorted_seconds:
        return None
    return round(sorted_seconds[min(int(len(sorted_seconds) * share), len(sorted_seconds) - 1)] * 1000, 3)
