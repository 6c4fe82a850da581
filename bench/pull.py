"""Pulls of a Bolide broker beside those of a Java 5.5.0 broker, in turns, and how often ours copies a body.

    python bench/pull.py [--bodies 128,4096,65536] [--seconds 4] [--rounds 3] [--servers java,bolide]

The load is the one of `bolide bench pull`: Python, over one connection, so a rate near its own limit is the load's.
Exit code 1 when a body is copied more than once between page cache and socket.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.servers import BolideBroker, Server, java_broker

from bolide.cli.bench.pull_load import GROUP, copies_of_a_body, measure_pulls
from bolide.node.process.daemon import new_runner
from bolide.remoting import codes
from bolide.remoting.command import make_request
from bolide.transport.client import ClientConnection

IN_FLIGHT = 16
STORED_BYTES = 32 * 1024 * 1024
MOST_MESSAGES = 4000
COPIES_LIMIT = 1.2
"""One copy, and what else is allocated for an answer."""


async def fill(port: int, topic: str, body: int) -> None:
    """Store messages of this size in queue 0 of a topic."""
    connection = await ClientConnection.connect(f"127.0.0.1:{port}")
    ext = {"a": GROUP, "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0"}
    content = os.urandom(body)
    for _ in range(min(MOST_MESSAGES, STORED_BYTES // body)):
        answer = await connection.request(make_request(codes.SEND_MESSAGE_V2, 0, ext, content), 10)
        assert answer.code == codes.SUCCESS, answer.remark
    connection.close()
    await connection.wait_closed()


async def rate(port: int, topic: str, seconds: float) -> float:
    """Megabytes pulled a second."""
    connection = await ClientConnection.connect(f"127.0.0.1:{port}")
    figures = await measure_pulls(connection, topic, 0, seconds, IN_FLIGHT)
    connection.close()
    await connection.wait_closed()
    return float(str(figures["bytes_per_second"])) / 1e6


def main() -> int:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bodies", default="128,4096,65536", help="body sizes in bytes")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--servers", default="java,bolide", help="which brokers to measure")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bolide-bench-"))
    servers: dict[str, Server] = {}
    try:
        for name in chosen.servers.split(","):
            home = folder / name
            servers[name] = java_broker(home, "async") if name == "java" else BolideBroker(home, "async")
        for body in map(int, chosen.bodies.split(",")):
            rates: dict[str, list[float]] = {name: [] for name in servers}
            for server in servers.values():
                asyncio.run(fill(server.port, f"Bench{body}", body))
                asyncio.run(rate(server.port, f"Bench{body}", chosen.seconds))  # warms it up
            for _ in range(chosen.rounds):
                for name, server in servers.items():
                    rates[name].append(asyncio.run(rate(server.port, f"Bench{body}", chosen.seconds)))
            medians = {name: statistics.median(found) for name, found in rates.items()}
            shown = ", ".join(f"{name} {median:.0f} MB/s" for name, median in medians.items())
            ratio = f", ratio {medians['bolide'] / medians['java']:.2f}" if len(medians) == 2 else ""
            print(f"{body:>7} B: {shown}{ratio}", flush=True)
    finally:
        for server in servers.values():
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)
    with new_runner() as loop:
        copies = loop.run(copies_of_a_body())
    print(f"copies of a body between page cache and socket: {copies}")
    return 1 if copies > COPIES_LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
