"""Our client beside the Java client 5.5.0, against one Bolide broker: rate, and processor time a message of the client.

    python bench/clients.py [--cases loop,in_flight,many,push] [--rounds 3] [--against PYTHON] [--no-java]

Each measurement is a new process; those of one case take turns. One line of JSON is printed for each client of a case,
the median of its rounds; `--against` measures the client of another environment, too, such as the one before a change.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from proof.interop.java_artefacts import BROKER_VERSION, compiled, jars, tool
from proof.kit.our_processes import OurBroker, OurNameServer

LOADS = Path(__file__).resolve().parent / "loads"
CASES = ("loop", "in_flight", "many", "push", "push_plain", "push_lists")
JAVA_CASES = ("loop", "in_flight", "push", "push_lists")
TOPIC = "BenchClients"
FILLED = "BenchClientsFilled"
_SPARE_SECONDS = 180.0


@dataclass(frozen=True)
class Figures:
    """What one process did: messages a second, and microseconds of processor time a message."""

    rate: float
    cpu_us: float


Client = Callable[[str, str, float, int], Figures]
"""Runs a case against a topic, for so many seconds or messages."""


def run(command: list[str], environment: dict[str, str]) -> Figures:
    """Run a program that prints a line of JSON. Ends this program if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SPARE_SECONDS, check=False, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed ({done.returncode}): {(done.stderr + done.stdout)[-2000:]}")
    values = json.loads(done.stdout.strip().splitlines()[-1])
    return Figures(values.get("rate", 0.0), values.get("cpu_us", 0.0))


def python_client(python: str, namesrv: str) -> Client:
    """The Bolide client of an environment."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NAMESRV_ADDR")}

    def load(case: str, topic: str, seconds: float, count: int) -> Figures:
        words = [python, str(LOADS / "client_load.py"), case, namesrv, topic, str(seconds), str(count)]
        return run(words, environment)

    return load


def java_client(home: Path, namesrv: str) -> Client:
    """The Java client, with the settings it has by itself."""
    folder = jars(BROKER_VERSION)
    classes = compiled("client-load", [LOADS / "ClientLoad.java"], f"{folder}/*")
    home.mkdir(parents=True)

    def load(case: str, topic: str, seconds: float, count: int) -> Figures:
        words = [tool("java"), "-Xmx1g", f"-Duser.home={home}", "-cp", f"{classes}:{folder}/*", "ClientLoad"]
        return run([*words, case, namesrv, topic, str(seconds), str(count)], dict(os.environ))

    return load


def measure(case: str, clients: dict[str, Client], rounds: int, seconds: float, count: int) -> None:
    """Let the clients run a case in turns, and print a line for each."""
    taking_part = {name: load for name, load in clients.items() if name != "java" or case in JAVA_CASES}
    found: dict[str, list[Figures]] = {name: [] for name in taking_part}
    for number in range(rounds):
        turn = list(taking_part.items())
        for name, load in reversed(turn) if number % 2 else turn:
            found[name].append(load(case, FILLED if case.startswith("push") else TOPIC, seconds, count))
    for name, figures in found.items():
        line: dict[str, object] = {
            "case": case,
            "client": name,
            "rate": round(statistics.median(one.rate for one in figures)),
            "cpu_us": round(statistics.median(one.cpu_us for one in figures), 2),
            "rounds": [[round(one.rate), round(one.cpu_us, 2)] for one in figures],
        }
        for other in found:
            if name == "bolide" and other != name:
                pairs = zip(figures, found[other], strict=True)
                line[f"rate_to_{other}"] = round(statistics.median(a.rate / b.rate for a, b in pairs), 2)
                pairs = zip(figures, found[other], strict=True)
                line[f"cpu_to_{other}"] = round(statistics.median(a.cpu_us / b.cpu_us for a, b in pairs), 2)
        print(json.dumps(line), flush=True)


def main() -> None:
    """Start the servers, fill the topic to consume, measure case by case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default="loop,in_flight,many,push", help=f"of {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=9.0, help="length of a send, a third of it to warm up")
    parser.add_argument("--count", type=int, default=600_000, help="messages to consume, a third of them to warm up")
    parser.add_argument("--against", help="the Python of another environment with a Bolide")
    parser.add_argument("--broker", default=sys.executable, help="the Python of the environment the broker runs in")
    parser.add_argument("--no-java", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the servers keep their files while it runs")
    chosen = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="bolide-clients-", dir=chosen.folder))
    name_server = OurNameServer(home / "namesrv")
    try:
        broker = OurBroker(home / "broker", name_server.address, as_shipped=True, python=chosen.broker)
        try:
            clients = {"bolide": python_client(sys.executable, name_server.address)}
            if chosen.against:
                clients["before"] = python_client(chosen.against, name_server.address)
            if not chosen.no_java:
                clients["java"] = java_client(home / "java", name_server.address)
            cases = chosen.cases.split(",")
            if any(case.startswith("push") for case in cases):
                clients["bolide"]("fill", FILLED, chosen.seconds, chosen.count)
            for case in cases:
                measure(case, clients, chosen.rounds, chosen.seconds, chosen.count)
        finally:
            broker.kill()
    finally:
        name_server.kill()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
