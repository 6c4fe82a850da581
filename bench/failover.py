"""How long a set under a controller takes no messages after its master was killed, for brokers and controllers of both.

Each round kills the master by SIGKILL and sends to the other broker, one message after the other, until one is
acknowledged; the time from the kill to the answer counts. Then the broker that was killed starts again, and the next
round begins once both are in sync. Both controllers notice by the broken connection. `ours/java` are our brokers under
Java's controller.

With `--producer` a producer of Bolide sends to the set all the time, one message after the other, and the longest time
between two acknowledgements counts. With `--planned` it does so while the set is handed over to the other broker.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, cast, get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.report.shown import add_json_option, aligned, say, write_json
from bench.servers.machine import describe
from bench.servers.stopping import Failed, measured

from bolide.client import Message
from bolide.client.blocking import Producer
from bolide.errors import BolideError
from bolide.remoting import codes
from proof.interop.controlled_set import ControlledBrokers, Kind
from proof.interop.java_processes import JavaController
from proof.kit.our_processes import OurController
from proof.kit.waiting import PROCESS_PATIENCE, wait_until
from proof.kit.wire import SEND_MESSAGE_V2, SUCCESS, Wire, send_ext

SETS = "ours/ours,java/java,java/ours,ours/java"
SETTINGS = {"allAckInSyncStateSet": "true"}
BETWEEN_S = 0.001
"""Seconds between an answer that refuses and the next send."""


def served_after(of: ControlledBrokers, master: int, other: int) -> float:
    """Kill the master; seconds until the other broker acknowledges a message."""
    with Wire(of.ports[other - 1]) as wire:
        wire.ask(SEND_MESSAGE_V2, send_ext("T"), b"refused")
    of.kill(master)
    began = time.monotonic()
    while time.monotonic() - began < PROCESS_PATIENCE:
        try:
            with Wire(of.ports[other - 1]) as wire:  # a broker that changes its role may close its connections
                while wire.ask(SEND_MESSAGE_V2, send_ext("T"), b"after").code != SUCCESS:
                    time.sleep(BETWEEN_S)
                return time.monotonic() - began
        except (OSError, AssertionError):
            time.sleep(BETWEEN_S)
    raise Failed(f"broker {other} accepted no message for {PROCESS_PATIENCE:g} s after the master was killed")


class Sending:
    """A producer that sends without a pause in a thread of its own; `acknowledged` are the times of its answers."""

    def __init__(self, namesrv: str) -> None:
        self.acknowledged: list[float] = []
        self._producer = Producer("bench", namesrv)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Sending:
        self._thread.start()
        self.more(50)
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _send(self) -> None:
        with self._producer as producer:
            while not self._over.is_set():
                try:
                    producer.send(Message("T", b"all the time"))
                except BolideError:
                    time.sleep(BETWEEN_S)
                else:
                    self.acknowledged.append(time.monotonic())

    def more(self, count: int) -> None:
        """Wait until so many more were acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted, f"{count} messages are acknowledged")


def hand_over(of: ControlledBrokers, other: int) -> None:
    """As an operator does: the controller is asked to elect the other broker."""
    ext = {"clusterName": "DefaultCluster", "brokerName": "broker-a", "brokerId": str(other), "designateElect": "true"}
    with Wire(of.controller.port) as wire:
        answer = wire.ask(codes.CONTROLLER_ELECT_MASTER, ext)
    if answer.code != SUCCESS:
        raise Failed(f"the controller does not elect broker {other}: {answer.remark}")


def longest_gap(of: ControlledBrokers, master: int, other: int, planned: bool) -> float:
    """Replace the master under a producer; the longest time between two acknowledgements, in seconds."""
    with Sending(of.namesrv.address) as sending:
        began = time.monotonic()
        if planned:
            hand_over(of, other)
        else:
            of.kill(master)
        wait_until(lambda: of.state().get("masterBrokerId") == other, f"{other} is elected")
        sending.more(200)
    times = sending.acknowledged
    return max(after - before for before, after in pairwise(times) if after >= began)


def rounds_of(name: str, rounds: int, folder: Path, producer: bool, planned: bool) -> list[float]:
    """Seconds of each round of `brokers/controller`."""
    kind, _, controller = name.partition("/")
    if {kind, controller} - set(get_args(Kind)):
        raise Failed(f"--sets {name} is not one of {SETS}")
    leader = JavaController(folder / "controller") if controller == "java" else OurController(folder / "controller")
    of = ControlledBrokers(folder, leader, SETTINGS)
    times = []
    try:
        for number in (1, 2):
            of.start(number, cast(Kind, kind))
        of.leads(1)
        master, other = 1, 2
        for number in range(rounds):
            gap = longest_gap(of, master, other, planned) if producer else served_after(of, master, other)
            times.append(gap)
            say(f"{name}: round {number + 1} of {rounds}, {times[-1] * 1000:.0f} ms")
            if not planned:
                of.start(master)
            wait_until(lambda: of.in_sync() == {1, 2}, "both are in sync")
            master, other = other, master
    finally:
        of.stop()
    return times


def run(chosen: argparse.Namespace, folder: Path, ends: ExitStack) -> dict[str, list[float]]:
    """Each set after the other."""
    names = chosen.sets.split(",")
    producer = chosen.producer or chosen.planned
    return {
        name: rounds_of(name, chosen.rounds, folder / str(at), producer, chosen.planned)
        for at, name in enumerate(names)
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how many times a master is killed (20)")
    parser.add_argument("--sets", default=SETS, help=f"brokers/controller, with commas ({SETS})")
    parser.add_argument("--producer", action="store_true", help="the longest pause that a producer of Bolide sees")
    parser.add_argument("--planned", action="store_true", help="the same, when the set is handed over")
    add_json_option(parser)
    chosen = parser.parse_args()
    machine = describe()
    found = measured("failover", None, lambda folder, ends: run(chosen, folder, ends))
    rows: list[tuple[str, ...]] = [("brokers/controller", "rounds", "median ms", "worst ms")]
    for name, times in found.items():
        rows.append((name, str(len(times)), f"{statistics.median(times) * 1000:.0f}", f"{max(times) * 1000:.0f}"))
    print(aligned(rows))
    values: dict[str, Any] = {"machine": machine, "seconds": found}
    write_json(values, chosen.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
