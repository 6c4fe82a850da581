"""What a broker costs with the things that an operator turns on, and with a slave: `python bench/operated.py`.

One broker for each of them, and one with none. They take the same load in turns, while the others are stopped
(SIGSTOP). The figures are the processor time of the broker for a message, user and kernel with all its threads, and the
rate, both beside the broker with none of them in the same round; medians over the rounds. A second broker with none
says how far two of one kind are apart. Unsigned sends are those of the C generator. Signed ones are a Bolide client's,
which is slower than the broker: there the rate says little.

A slave on the same machine takes processor time and caches from its master, and of the generator, so that fewer sends
come in a turn. What a slave on another machine costs is shown by one that drops what it is sent.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.loads.generator import Shape, generate
from bench.report.shown import say
from bench.servers.machine import Watch, load_average
from bench.servers.stopping import Failed, measured

from bolide.remoting import codes
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.ports import reserve_port
from proof.kit.waiting import wait_until
from proof.kit.wire import Wire

ACCESS, SECRET = "operator", "a secret of the bench"
PLAIN, AGAIN = "nothing", "nothing, second broker"
SHAPES = {"send 64x1": (Shape(64, 1), 128), "send 8x32": (Shape(8, 32), 128), "send 64x1 of 1 KB": (Shape(64, 1), 1024)}
SIGNED = "256 signed sends in flight"
_PLAIN_ACL = f"""\
accounts:
- accessKey: {ACCESS}
  secretKey: {SECRET}
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
"""
_USERS = {
    "authenticationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ACCESS, "password": SECRET}),
}
_PATIENT_SET = {"haHousekeepingInterval": "3600000"}
"""Master and slave are stopped while others are measured, and keep their connection."""


class DroppingSlave:
    """The process of `dropping_slave.py`."""

    def __init__(self, port: int) -> None:
        words = [sys.executable, str(Path(__file__).with_name("dropping_slave.py")), "127.0.0.1", str(port)]
        self._process = subprocess.Popen(words)

    def pause(self) -> None:
        """Stop it for a while."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run again."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


@dataclass
class Variant:
    """A broker with some settings. `scraped` is the port of its metrics; `signed`: it refuses others."""

    name: str
    settings: Mapping[str, str]
    signed: bool = False
    scraped: int = 0
    followed: bool = False
    """A slave has its log, and nobody waits for it."""
    drops: bool = False
    """The slave drops what it is sent, as if it were elsewhere."""
    found: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """By load: microseconds of processor time a message, and messages a second."""
    server: OurBroker | None = None
    slave: OurBroker | DroppingSlave | None = None
    namesrv: str = ""


def variants(folder: Path) -> list[Variant]:
    """All of them; the first is what the others are compared with."""
    acl = folder / "acl"
    acl.mkdir()
    (acl / "plain_acl.yml").write_text(_PLAIN_ACL, encoding="utf-8")
    (acl / "plain_acl.yml").chmod(0o600)
    port = reserve_port()
    metrics = {"metricsExporterType": "PROM", "metricsPromExporterHost": "127.0.0.1"}
    return [
        Variant(PLAIN, {}),
        Variant(AGAIN, {}),
        Variant("metrics, scraped each second", {**metrics, "metricsPromExporterPort": str(port)}, scraped=port),
        Variant("a slave, ASYNC_MASTER", {**_PATIENT_SET, "brokerRole": "ASYNC_MASTER"}, followed=True),
        Variant("a slave elsewhere", {**_PATIENT_SET, "brokerRole": "ASYNC_MASTER"}, followed=True, drops=True),
        Variant("access control of 4.9", {"aclEnable": "true", "aclFolder": str(acl)}, signed=True),
        Variant("authentication", _USERS, signed=True),
        Variant("authentication, authorization", {**_USERS, "authorizationEnabled": "true"}, signed=True),
    ]


@contextmanager
def scraping(port: int, every: float = 1.0) -> Iterator[None]:
    """Ask for the metrics once a second, as Prometheus does each 15 seconds."""
    over = threading.Event()
    failed: list[str] = []

    def scrape() -> None:
        while not over.is_set():
            try:
                with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                    answer.read()
            except OSError as error:
                failed.append(str(error))
            over.wait(every)

    thread = threading.Thread(target=scrape)
    if port:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if port:
            thread.join()
    if failed:
        raise Failed(f"the metrics were not answered: {failed[0]}")


def unsigned(variant: Variant, shape: Shape, body: int, seconds: float) -> tuple[float, float]:
    """A load of the generator."""
    assert variant.server is not None
    watch = Watch(variant.server.pid)
    with scraping(variant.scraped):
        seen = generate(variant.server.port, shape, body, seconds, skip=0.3)
    if seen.refused:
        raise Failed(f"{variant.name}: {seen.refused} sends were refused: {seen.codes}")
    spent = watch.end(seen.all_count, seen.cpu_seconds)
    return spent["user_us"] + spent["system_us"], seen.rate


def signed(variant: Variant, seconds: float) -> tuple[float, float]:
    """A load of our client."""
    assert variant.server is not None
    watch = Watch(variant.server.pid)
    program = str(Path(__file__).parent / "loads/client_load.py")
    words = [program, "in_flight", variant.namesrv, "Signed", str(seconds), "0"]
    keys = {"BOLIDE_ACCESS_KEY": ACCESS, "BOLIDE_SECRET_KEY": SECRET}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=180, check=False, env={**os.environ, **keys}
    )
    if done.returncode:
        raise Failed(f"{variant.name}: the client failed: {done.stderr.strip()[-500:]}")
    values = json.loads(done.stdout)
    spent = watch.end(values["all"], 0.0)
    return spent["user_us"] + spent["system_us"], values["rate"]


def run(rounds: int, seconds: float, only: str, work: Path, running: ExitStack) -> list[Variant]:
    """Measure them all, or those with `only` in their name; round 0 does not count."""
    all_of = [variant for variant in variants(work) if only in variant.name or variant.name in (PLAIN, AGAIN)]
    for variant in all_of:
        home = work / variant.name.replace(" ", "-").replace(",", "")
        name_server = OurNameServer(home / "namesrv")
        running.callback(name_server.kill)
        variant.namesrv = name_server.address
        port = reserve_port(1, -2)
        settings = {"haListenPort": str(port + 1), **variant.settings}
        variant.server = OurBroker(home / "broker", name_server.address, settings, as_shipped=True, port=port)
        running.callback(variant.server.kill)
        if variant.followed:
            settings = {**_PATIENT_SET, "brokerRole": "SLAVE", "brokerId": "1"}
            variant.slave = (
                DroppingSlave(port + 1)
                if variant.drops
                else OurBroker(home / "slave", name_server.address, settings, as_shipped=True)
            )
            running.callback(variant.slave.kill)
            caught_up(variant)
            variant.slave.pause()
        variant.server.pause()
    for number in range(rounds + 1):
        for variant in all_of if number % 2 else list(reversed(all_of)):
            _round(variant, seconds, number > 0)
        say(f"round {number} of {rounds}, load {load_average():.1f}" + ("" if number else ", not counted"))
    return all_of


def _lacks_nothing(master: OurBroker) -> bool:
    with Wire(master.port) as wire:
        slaves = json.loads(wire.ask(codes.GET_BROKER_HA_STATUS).body)["haConnectionInfo"]
    return bool(slaves) and all(slave["diff"] == 0 for slave in slaves)


def caught_up(variant: Variant) -> None:
    """Wait until the slave has its master's log."""
    master = variant.server
    assert master is not None
    if variant.slave is not None:
        wait_until(lambda: _lacks_nothing(master), "the slave has its master's log")


def _round(variant: Variant, seconds: float, counts: bool) -> None:
    assert variant.server is not None
    os.sync()
    variant.server.resume()
    if variant.slave is not None:
        variant.slave.resume()
    try:
        caught_up(variant)
        found = {SIGNED: signed(variant, 3 * seconds)}
        if not variant.signed:
            found |= {name: unsigned(variant, *load, seconds) for name, load in SHAPES.items()}
        caught_up(variant)
    finally:
        variant.server.pause()
        if variant.slave is not None:
            variant.slave.pause()
    if counts:
        for load, figures in found.items():
            variant.found.setdefault(load, []).append(figures)


def table(all_of: list[Variant]) -> str:
    """The figures, as Markdown."""
    lines = ["| turned on | load | µs per message | to nothing | rate to nothing |", "|---|---|---|---|---|"]
    base = all_of[0]
    for variant in all_of:
        for load, figures in variant.found.items():
            pairs = list(zip(figures, base.found[load], strict=True))
            spent = statistics.median(own[0] / other[0] for own, other in pairs)
            rate = statistics.median(own[1] / other[1] for own, other in pairs)
            each = statistics.median(own[0] for own in figures)
            lines.append(f"| {variant.name} | {load} | {each:.1f} | {spent:.2f} | {rate:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="operated", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a measurement (2)")
    parser.add_argument("--only", default="", help="beside nothing, only what has this in its name")
    chosen = parser.parse_args()
    found = measured("operated", None, lambda work, ends: run(chosen.rounds, chosen.seconds, chosen.only, work, ends))
    print(table(found))


if __name__ == "__main__":
    main()
