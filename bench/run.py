"""Bolide beside the Java broker 5.5.0 on every path, in alternating rounds on one machine: `make bench`.

A figure is the median over the rounds of the ratio within a round. Processor time is the broker's, user and kernel, for
each message; system calls are counted in a run of their own. The null server, which stores nothing, is the ceiling of
generator, kernel and loopback: a result above 80 % of it says more about those. `--against` measures another commit of
this repository instead of Java, or beside it with `--servers java,bolide`.
"""

import argparse
import shlex
import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.loads import growing
from bench.loads.rows import all_rows, chosen_rows
from bench.loads.subject import Scale
from bench.report import growing_page, page
from bench.report.results import OURS, Result, as_values, table
from bench.report.rounds import JAVA, Plan, measure
from bench.report.shown import say, write_json
from bench.servers import against
from bench.servers.machine import describe, load_average
from bench.servers.stopping import Failed, measured

AGAINST = "before"
SERVERS = (JAVA, OURS, AGAINST)
PAGE, GROWTH_PAGE = Path("build/bench/bench.html"), Path("build/bench/growth.html")
QUICK = Scale(seconds=0.7, skip=0.2, count=40_000, crowd=1_000, share=0.25, level=2)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about five minutes: one short round, no system calls")
    parser.add_argument("--only", action="append", metavar="ROWS", help="rows whose names contain this; several by `;`")
    parser.add_argument("--list", action="store_true", help="print the names of all rows and end")
    parser.add_argument("--rounds", type=int, help="rounds that count (3)")
    parser.add_argument("--seconds", type=float, help="length of a measurement (2)")
    parser.add_argument("--count", type=int, help="messages that come due together (200000)")
    parser.add_argument("--connections", type=int, help="connections with heartbeats or held pulls (5000)")
    parser.add_argument("--servers", help="which brokers to measure (java,bolide; with --against bolide)")
    parser.add_argument(
        "--against", metavar="REV", help="a commit, or the python of another environment, to compare with"
    )
    parser.add_argument("--no-calls", action="store_true", help="do not count system calls")
    parser.add_argument("--json", default="", metavar="FILE", help="write everything measured to this file")
    parser.add_argument("--page", type=Path, metavar="FILE", help=f"the drawn page ({PAGE} or {GROWTH_PAGE})")
    parser.add_argument("--floor", type=float, help="fail if the ratio to Java of a row is below this")
    parser.add_argument("--growth", action="store_true", help="cost as the work grows, of Bolide alone; --only chooses")
    parser.add_argument("--sizes", default="", help="sizes of --growth, such as `log=1,10;held=1,100`")
    return parser.parse_args()


def plan_of(chosen: argparse.Namespace) -> Plan:
    """What the command line asks for. Raises Failed where it cannot be done."""
    base = QUICK if chosen.quick else Scale()
    scale = Scale(
        seconds=chosen.seconds or base.seconds,
        skip=base.skip,
        count=chosen.count or base.count,
        crowd=chosen.connections or base.crowd,
        share=base.share,
        level=base.level,
        watch=max(2 * (chosen.seconds or base.seconds), 1.0),
    )
    names = (chosen.servers or (OURS if chosen.against else f"{JAVA},{OURS}")).split(",")
    unknown = [name for name in names if name not in SERVERS[:2]]
    if unknown or OURS not in names:
        raise Failed(f"--servers is {JAVA},{OURS} or {OURS}, not {','.join(names)}")
    rounds = chosen.rounds if chosen.rounds is not None else (1 if chosen.quick else 3)
    if rounds < 1 or scale.seconds <= 0 or scale.count < 100 or scale.crowd < 10:
        raise Failed("--rounds is 1 or more, --seconds above 0, --count 100 or more, --connections 10 or more")
    pythons = {OURS: sys.executable}
    if chosen.against:
        pythons[AGAINST] = against.python_of(chosen.against)
        names.append(AGAINST)
    return Plan(
        rows=chosen_rows(";".join(chosen.only or ())),
        servers=names,
        rounds=rounds,
        scale=scale,
        warm_seconds=2.0 if chosen.quick else 5.0,
        calls=not (chosen.no_calls or chosen.quick),
        pythons=pythons,
    )


def compare(chosen: argparse.Namespace, work: Path) -> int:
    """Measure the rows, print the table, write page and file; 1 where a row failed or a floor is missed."""
    plan = plan_of(chosen)
    began, load = time.time(), load_average()
    machine = describe() | {name: against.describe(python) for name, python in plan.pythons.items()}
    say(", ".join(f"{key} {value}" for key, value in machine.items()))
    results = measure(plan, work)
    values = {
        **_told(machine, began, load),
        "against": chosen.against or "",
        "rounds": plan.rounds,
        "scale": vars(plan.scale),
        "servers": list(plan.servers),
        "rows": as_values(results, plan.servers),
    }
    print(table(values["rows"], plan.servers))
    write_json(values, chosen.json)
    page.write(page.drawn(values), chosen.page or PAGE)
    failures = [failure for result in results for failure in result.failures] + below(results, chosen.floor)
    for failure in failures:
        say(failure)
    return 1 if failures else 0


def _told(machine: dict[str, str], began: float, load: float) -> dict[str, object]:
    """What both kinds of result say of the run."""
    return {
        "machine": machine,
        "commit": against.commit_here(),
        "command": f"make bench ARGS={shlex.quote(shlex.join(sys.argv[1:]))}" if sys.argv[1:] else "make bench",
        "date": time.strftime("%Y-%m-%d", time.gmtime(began)),
        "minutes": (time.time() - began) / 60,
        "load_before": load,
    }


def grow(chosen: argparse.Namespace, work: Path) -> int:
    """Measure cost as the work grows, draw it, write the file."""
    series = growing.chosen_series(";".join(chosen.only or ()), chosen.sizes, chosen.quick)
    began, load = time.time(), load_average()
    seconds = chosen.seconds or (0.5 if chosen.quick else 2.0)
    found = growing.grown(series, work, seconds)
    values = {**_told(describe(), began, load), "series": found}
    write_json(values, chosen.json)
    page.write(growing_page.drawn(values), chosen.page or GROWTH_PAGE)
    return 0


def below(results: list[Result], floor: float | None) -> list[str]:
    """A sentence for each row whose rate is below the floor that was asked for."""
    if floor is None:
        return []
    found = []
    for result in results:
        ratio = result.ratio(result.row.compared[0], JAVA)
        if ratio is not None and ratio < floor:
            found.append(f"{result.row.name}: {ratio:.2f} is below the floor of {floor}")
    return found


def main() -> int:
    """Measure what the command line asks for."""
    chosen = arguments()
    if chosen.list:
        print("\n".join(row.name for row in all_rows()))
        return 0

    def run(work: Path, ends: ExitStack) -> int:
        return grow(chosen, work) if chosen.growth else compare(chosen, work)

    return measured("bench", None, run)


if __name__ == "__main__":
    sys.exit(main())
