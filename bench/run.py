"""Send rate of Bolide against Java's broker 5.5.0, in alternating rounds on one machine: `make bench`.

Both brokers run all the time with the same flush mode, each with its own defaults; the one that is not measured is
stopped (SIGSTOP), so that the generator and the measured broker share the processors with nobody. Java is warmed until
three windows agree. A figure is the median over the rounds of the ratio within a round; the null server's rate in the
same run is the ceiling of generator, kernel and loopback, and a result above 80 % of it says more about those.
`--against` measures the Bolide of another environment beside them, such as the one before a change.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.generator import Measurement, Shape, generate
from bench.servers import BolideBroker, NullServer, Server, java_broker
from bench.shown import aligned

WARM_SHAPE = Shape(8, 32)
WARM_WINDOW_SECONDS = 10.0
WARM_AGREE = 0.03
WARM_LIMIT_SECONDS = 120.0
CEILING_SHARE = 0.8
AGAINST = "before"
_SKIP_SECONDS = 0.5


@dataclass
class Case:
    """One shape, body size and flush mode, with what was measured in each round."""

    shape: Shape
    body: int
    flush: str
    rounds: dict[str, list[Measurement]] = field(default_factory=dict)
    ceiling: float = 0.0

    def rate(self, name: str) -> float:
        """Median rate of a server, messages a second."""
        return statistics.median(m.rate for m in self.rounds[name])

    def p99_ms(self, name: str) -> float:
        """Median over the rounds of the 99th percentile, milliseconds."""
        return statistics.median(m.p99_us for m in self.rounds[name]) / 1000

    def ratio(self, to: str) -> float:
        """Median over the rounds of Bolide's rate by that of another server."""
        return statistics.median(
            ours.rate / other.rate for ours, other in zip(self.rounds["bolide"], self.rounds[to], strict=True)
        )

    def generator_bound(self, name: str) -> bool:
        """Whether a server came so near the ceiling that the figure is the generator's."""
        return self.rate(name) > CEILING_SHARE * self.ceiling


def warm(port: int, window: float) -> list[float]:
    """Send until three windows in a row agree within 3 % or two minutes are over; returns the rates of the windows."""
    rates: list[float] = []
    while window * len(rates) < WARM_LIMIT_SECONDS:
        rates.append(generate(port, WARM_SHAPE, 128, window).rate)
        print(f"  warming: {rates[-1]:,.0f}/s", flush=True)
        last = rates[-3:]
        if len(last) == 3 and max(last) - min(last) <= WARM_AGREE * max(last):
            break
    return rates


def others(names: Sequence[str]) -> list[str]:
    """The servers that Bolide is compared with."""
    return [name for name in names if name != "bolide"] if "bolide" in names else []


def start(name: str, home: Path, flush: str, against: str | None) -> Server:
    """A server by the name it has in the tables."""
    if name == "java":
        return java_broker(home, flush)
    return BolideBroker(home, flush, python=against or sys.executable) if name == AGAINST else BolideBroker(home, flush)


def measure_round(number: int, servers: dict[str, Server], cases: Sequence[Case], seconds: float) -> None:
    """Measure every case on every server once; odd rounds begin with the other server."""
    order = list(servers) if number % 2 == 0 else list(reversed(servers))
    for case in cases:
        for name in order:
            os.sync()  # what the last one left to write must not be written while this one is measured
            for other, server in servers.items():
                if other != name:
                    server.pause()
            try:
                result = generate(servers[name].port, case.shape, case.body, seconds, skip=_SKIP_SECONDS)
            finally:
                for other, server in servers.items():
                    if other != name:
                        server.resume()
            case.rounds.setdefault(name, []).append(result)
            refused = f", {result.refused} refused {result.codes}" if result.refused else ""
            print(
                f"  round {number + 1} {case.flush} {case.shape} {case.body} B {name}: {result.rate:,.0f}/s,"
                f" p99 {result.p99_us / 1000:.1f} ms{refused}",
                flush=True,
            )


def run(
    cases: list[Case],
    rounds: int,
    seconds: float,
    window: float,
    names: Sequence[str],
    folder: Path,
    against: str | None = None,
) -> None:
    """Fill in the ceilings, then the rounds of one flush mode after the other."""
    null = NullServer(folder / "null")
    try:
        for case in cases:
            case.ceiling = generate(null.port, case.shape, case.body, min(seconds, 3.0), skip=_SKIP_SECONDS).rate
    finally:
        null.kill()
    for flush in dict.fromkeys(case.flush for case in cases):
        servers: dict[str, Server] = {}
        try:
            for name in names:
                home = folder / f"{name}-{flush}"
                servers[name] = start(name, home, flush, against)
                print(f"{name}, {flush} flush", flush=True)
                warm(servers[name].port, window if name == "java" else min(window, 3.0))
                servers[name].pause()
            for server in servers.values():
                server.resume()
            for number in range(rounds):
                measure_round(number, servers, [case for case in cases if case.flush == flush], seconds)
        finally:
            for server in servers.values():
                server.kill()
            for name in names:
                shutil.rmtree(folder / f"{name}-{flush}", ignore_errors=True)


def table(cases: Sequence[Case], names: Sequence[str]) -> str:
    """The result as text, one line a case."""
    heads = ["flush", "shape", "body"]
    for name in names:
        heads += [f"{name}/s", "p99 ms"]
    heads += [f"by {name}" for name in others(names)] + ["ceiling/s", ""]
    rows = [heads]
    for case in cases:
        row = [case.flush, str(case.shape), f"{case.body} B"]
        for name in names:
            row += [f"{case.rate(name):,.0f}", f"{case.p99_ms(name):.1f}"]
        row += [f"{case.ratio(name):.2f}" for name in others(names)]
        row.append(f"{case.ceiling:,.0f}")
        row.append(", ".join(f"{name} generator-bound" for name in names if case.generator_bound(name)))
        rows.append(row)
    return aligned(rows)


def describe_machine() -> dict[str, str]:
    """What the figures were measured on."""
    described = {"python": platform.python_version(), "system": platform.platform(), "cpus": str(os.cpu_count())}
    try:
        from bolide import _impl
    except ImportError:
        return described
    return described | {"bolide": _impl.describe()}


def as_json(cases: Sequence[Case], names: Sequence[str]) -> str:
    """Everything measured, for a file."""
    results = []
    for case in cases:
        result: dict[str, object] = {"shape": str(case.shape), "body": case.body, "flush": case.flush}
        result["ceiling"] = case.ceiling
        result["rounds"] = {name: [asdict(m) for m in case.rounds[name]] for name in names}
        result["generator_bound"] = [name for name in names if case.generator_bound(name)]
        result["ratio"] = {name: case.ratio(name) for name in others(names)}
        results.append(result)
    return json.dumps({"machine": describe_machine(), "results": results}, indent=1)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="async flush, 128 B, three rounds of four seconds")
    parser.add_argument("--shapes", default="64x1,8x32,1x1", help="connections x in flight, separated by commas")
    parser.add_argument("--bodies", help="body sizes in bytes (128,1024)")
    parser.add_argument("--flush", help="flush modes (async,sync)")
    parser.add_argument("--rounds", type=int, help="rounds (5)")
    parser.add_argument("--seconds", type=float, help="length of a measurement (8)")
    parser.add_argument("--servers", default="java,bolide", help="which brokers to measure")
    parser.add_argument("--against", help="the python of another environment, whose Bolide is measured as well")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--floor", type=float, help="fail if a ratio to Java at 128 B, async flush, is below this")
    return parser.parse_args()


def main() -> int:
    """Measure, print the table; 1 if a floor was asked for and missed."""
    chosen = arguments()
    quick = chosen.quick
    flushes = (chosen.flush or ("async" if quick else "async,sync")).split(",")
    bodies = [int(size) for size in (chosen.bodies or ("128" if quick else "128,1024")).split(",")]
    shapes = [Shape.parse(text) for text in chosen.shapes.split(",")]
    names = chosen.servers.split(",") + ([AGAINST] if chosen.against else [])
    cases = [Case(shape, body, flush) for flush in flushes for body in bodies for shape in shapes]
    rounds = chosen.rounds or (3 if quick else 5)
    seconds = chosen.seconds or (4.0 if quick else 8.0)
    window = 5.0 if quick else WARM_WINDOW_SECONDS
    print(", ".join(f"{key} {value}" for key, value in describe_machine().items()))
    folder = Path(tempfile.mkdtemp(prefix="bolide-bench-"))
    try:
        run(cases, rounds, seconds, window, names, folder, chosen.against)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print()
    print(table(cases, names))
    if chosen.json:
        chosen.json.write_text(as_json(cases, names) + "\n", encoding="utf-8")
    if chosen.floor is None or "java" not in others(names):
        return 0
    below = [case for case in cases if case.body == 128 and case.flush == "async" and case.ratio("java") < chosen.floor]
    for case in below:
        print(f"below the floor of {chosen.floor}: {case.flush} {case.shape} {case.body} B, {case.ratio('java'):.2f}")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
