"""How long a set under a controller takes no messages after its master was killed, for brokers and controllers of both.

Each round kills the master by SIGKILL and sends to the other broker, one message after the other, until one is
acknowledged; the time from the kill to the answer counts. Then the broker that was killed starts again, and the next
round begins once both are in sync. Both controllers notice by the broken connection. `ours/java` are our brokers under
Java's controller.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast, get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.machine import describe
from bench.shown import add_json_option, aligned, say, write_json
from bench.stopping import Failed, measured

from tests.interop.controlled_set import SECONDS, ControlledBrokers, Kind
from tests.interop.java_processes import JavaController
from tests.interop.our_processes import OurController
from tests.interop.wire import SEND_MESSAGE_V2, SUCCESS, Wire, send_ext

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
    while time.monotonic() - began < SECONDS:
        try:
            with Wire(of.ports[other - 1]) as wire:  # a broker that changes its role may close its connections
                while wire.ask(SEND_MESSAGE_V2, send_ext("T"), b"after").code != SUCCESS:
                    time.sleep(BETWEEN_S)
                return time.monotonic() - began
        except (OSError, AssertionError):
            time.sleep(BETWEEN_S)
    raise Failed(f"broker {other} took no message for {SECONDS} s after the master was killed")


def rounds_of(name: str, rounds: int, folder: Path) -> list[float]:
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
            times.append(served_after(of, master, other))
            say(f"{name}: round {number + 1} of {rounds}, {times[-1] * 1000:.0f} ms")
            of.start(master)
            master, other = other, master
    finally:
        of.stop()
    return times


def run(chosen: argparse.Namespace, folder: Path, ends: ExitStack) -> dict[str, list[float]]:
    """Each set after the other."""
    names = chosen.sets.split(",")
    return {name: rounds_of(name, chosen.rounds, folder / str(at)) for at, name in enumerate(names)}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how many times a master is killed (20)")
    parser.add_argument("--sets", default=SETS, help=f"brokers/controller, with commas ({SETS})")
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
