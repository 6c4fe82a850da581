"""RocketMQ's own integration tests, as it publishes them, against Bolide: `make rocketmq-tests`.

    python -m proof.interop.own_tests [--release 4.9.7] [--against java] [CLASS ...]

The jars of tests are fetched and checked like the clients'. One class of them is replaced, the one that starts servers
inside the test's process (java/own_tests): ours run in processes of their own. What is left out, and why, is in
java/own_tests/left_out.toml. Exit status 1 when a test fails or a class ends without a word.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from proof.interop.java_artefacts import (
    BROKER_VERSION,
    OLD_BROKER_VERSION,
    ArtefactError,
    compiled,
    jars,
    source_folder,
    tool,
)
from proof.interop.java_processes import JavaBroker, JavaNameServer
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.waiting import wait_until

RELEASES: Final = {OLD_BROKER_VERSION: "ab", BROKER_VERSION: "abc"}
"""Releases whose tests are run, and the last letters of their brokers' names: the tests count them."""
PACKAGE: Final = "org.apache.rocketmq.test."
PROCESSES: Final = 3
"""Java programs of a release at a time: most of what the tests do is wait."""
LIMIT_SECONDS: Final = 2400.0
MOST_LOG: Final = 64 << 20
"""A test that pulls in a loop prints a trace each time it may not yet: gigabytes in the half minute to a heartbeat."""
SETTINGS: Final = {
    "enablePropertyFilter": "true",
    "enableCalcFilterBitMap": "true",
    "enableConsumeQueueExt": "true",
    "brokerFastFailureEnable": "false",
}
PASSED, FAILED, IGNORED = "passed", "failed", "ignored"


class Result(NamedTuple):
    """What one test said."""

    release: str
    name: str
    state: str
    seconds: float
    reason: str


def left_out(release: str) -> list[str]:
    """Names of packages, classes and tests that are not run."""
    text = (source_folder() / "own_tests" / "left_out.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["left_out"]
    return [name for entry in entries if release in entry["releases"] for name in entry["names"]]


def classes(release: str) -> list[str]:
    """Test classes of a release, without the package they all share, that are to run."""
    with zipfile.ZipFile(jars(f"{release}-test") / f"rocketmq-test-{release}-tests.jar") as jar:
        paths = [name.removesuffix(".class") for name in jar.namelist() if name.endswith("IT.class")]
    names = sorted(path.replace("/", ".").removeprefix(PACKAGE) for path in paths)
    out = left_out(release)
    for given in out:
        if not any(_is_in(name, given.partition("#")[0]) for name in names):
            raise ArtefactError(f"left_out.toml names {given}, which {release} has not")
    return [name for name in names if not any(_is_in(name, given) for given in out)]


def _is_in(name: str, given: str) -> bool:
    return name == given or name.startswith(given + ".")


@contextmanager
def servers(release: str, against: str, home: Path) -> Iterator[list[str]]:
    """A name server and the brokers that the tests of a release expect; the Java options that tell where they are."""
    with ExitStack() as ends:
        namesrv = OurNameServer(home / "namesrv") if against == "ours" else JavaNameServer(home / "namesrv", release)
        ends.callback(namesrv.kill)
        brokers: list[OurBroker | JavaBroker] = []
        for letter in RELEASES[release]:
            folder, settings = home / letter, {**SETTINGS, "brokerName": f"broker-{letter}"}
            if against == "ours":
                brokers.append(OurBroker(folder, namesrv.address, {**settings, "flushDiskType": "ASYNC_FLUSH"}))
            else:
                brokers.append(JavaBroker(folder, namesrv.address, settings, version=release))
            ends.callback(brokers[-1].kill)
        named = ",".join(
            f"broker-{letter}:{broker.port}" for letter, broker in zip(RELEASES[release], brokers, strict=True)
        )
        yield [f"-Dbolide.namesrv={namesrv.port}", f"-Dbolide.brokers={named}"]


class Program:
    """A Java program that runs some of the classes; its results arrive while it runs."""

    def __init__(self, release: str, places: Sequence[str], names: Sequence[str], home: Path) -> None:
        home.mkdir(parents=True)
        self.release = release
        self.names = names
        self.results: list[Result] = []
        self.log = home / "tests.log"
        skipped = ",".join(name.rpartition(".")[2] for name in left_out(release) if "#" in name)
        own = source_folder() / "own_tests"
        path = f"{jars(f'{release}-test')}/*:{jars(release)}/*"
        sources = [own / "OwnTests.java", own / "Elsewhere.java", own / release / "IntegrationTestBase.java"]
        path = f"{compiled(f'own-tests-{release}', sources, path).resolve()}:{path}"
        self.child = subprocess.Popen(
            [
                tool("java"), "-Xmx512m", f"-Duser.home={home}", f"-Djava.io.tmpdir={home}", *places,
                f"-Dbolide.skip={skipped}", "-cp", path, "OwnTests", *(PACKAGE + name for name in names),
            ],
            cwd=home,  # some write a log below the folder they run in
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        with self.log.open("wb") as log:
            for line in self.child.stdout:
                if not line.startswith(b"RESULT\t"):
                    if log.tell() < MOST_LOG:
                        log.write(line)
                    continue
                _, name, method, state, millis, reason = line.decode("utf-8", "replace").rstrip("\n").split("\t", 5)
                self.results.append(Result(self.release, f"{name}.{method}", state, int(millis) / 1000, reason))

    @property
    def ended(self) -> bool:
        """True once nothing more comes."""
        return self.child.poll() is not None and not self._reader.is_alive()

    def silent(self) -> list[str]:
        """Classes of which nothing was heard."""
        heard = {result.name.partition(".")[0] for result in self.results}
        return [name for name in self.names if name.rpartition(".")[2] not in heard]

    def kill(self) -> None:
        """End it, whatever it does."""
        self.child.kill()
        self.child.wait()


def run(release: str, against: str, chosen: Sequence[str], home: Path) -> tuple[list[Result], list[str]]:
    """All results of a release, printed as they come, and the classes that said nothing."""
    names = [name for name in classes(release) if not chosen or name.rpartition(".")[2] in chosen]
    shares = [share for share in (names[number::PROCESSES] for number in range(PROCESSES)) if share]
    with servers(release, against, home) as places, ExitStack() as ends:
        programs = [Program(release, places, share, home / f"program-{n}") for n, share in enumerate(shares)]
        for program in programs:
            ends.callback(program.kill)
        told = [0] * len(programs)

        def all_ended() -> bool:
            ended = all(program.ended for program in programs)
            for number, program in enumerate(programs):
                for result in program.results[told[number] :]:
                    told[number] += 1
                    say(f"{release} {result.name} {result.state} {result.seconds:.1f} s {result.reason[:300]}".rstrip())
            return ended

        wait_until(all_ended, f"the tests of {release} end", LIMIT_SECONDS)
        for program in programs:
            if program.silent() or any(result.state == FAILED for result in program.results):
                say(f"what they printed is in {program.log}")
        results = [result for program in programs for result in program.results]
        return results, [name for program in programs for name in program.silent()]


def say(text: str) -> None:
    """A line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run them; the exit status says whether all passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("classes", nargs="*", metavar="CLASS", help="only these test classes")
    parser.add_argument("--release", choices=RELEASES, action="append", help="tests of this release; default: all")
    parser.add_argument("--against", choices=("ours", "java"), default="ours", help="whose brokers")
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args()
    began = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="bolide-rocketmq-tests-"))
    failures = 0
    summary = []
    every: list[Result] = []
    try:
        for release in given.release or RELEASES:
            results, silent = run(release, given.against, given.classes, home / release)
            counts = Counter(result.state for result in results)
            failures += counts[FAILED] + len(silent)
            every += results
            for name in silent:
                say(f"{release} {name} said nothing")
            summary.append(f"{release}: {counts[PASSED]} passed, {counts[FAILED]} failed, {counts[IGNORED]} ignored")
    except (ArtefactError, AssertionError) as error:
        raise SystemExit(f"bolide: {error}") from None
    if given.json:
        given.json.write_text(json.dumps([result._asdict() for result in every], indent=1), encoding="utf-8")
    say(f"RocketMQ's own tests: {'; '.join(summary)}; {time.monotonic() - began:.0f} s")
    if failures:
        raise SystemExit(1)
    shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
