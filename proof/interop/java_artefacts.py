"""The RocketMQ jars the interop tests and the bench run: fetched once by Maven at a pinned version, checked by hash.

`java/<version>/pom.xml` pins what is fetched, `java/jars-<version>.sha256` (the format of sha256sum) pins every byte of
it. A jar that is missing, unknown or different is an error, and so is a machine that cannot fetch: a test that needs a
real Java client and quietly does without one proves nothing.

    python -m proof.interop.java_artefacts  # fetches what the suite needs, before it

because a slow network is no reason for a test to run out of time.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

BROKER_VERSION = "5.5.0"
CLIENT_VERSIONS = ("4.9.8", "5.5.0")
OLD_BROKER_VERSION = "4.9.7"
"""The newest 4.9 broker on Maven Central; 4.9.8 was published there as a client only."""

_JAVA = Path(__file__).resolve().parent / "java"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_FETCH_SECONDS = 600.0


class ArtefactError(Exception):
    """A jar or a tool is missing or not the one that is pinned; the text says which and what to do."""


def cache_folder() -> Path:
    """Where jars and compiled drivers are kept: `BOLIDE_CACHE`, else `.cache` in the checkout."""
    chosen = os.environ.get("BOLIDE_CACHE")
    return Path(chosen) if chosen else _JAVA.parents[2] / ".cache"


def source_folder() -> Path:
    """Where the Java sources of the tests are."""
    return _JAVA


def tool(name: str) -> str:
    """Path of `java`, `javac` or `mvn`, from `JAVA_HOME` or `PATH`."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / name).is_file():
        return str(Path(home) / "bin" / name)
    found = shutil.which(name)
    if found is None:
        raise ArtefactError(f"{name} is not on PATH: the interop tests need a JDK (11 or newer) and Maven")
    return found


@cache
def jars(version: str) -> Path:
    """Folder with the verified jars of a version; fetches them the first time. Raises ArtefactError."""
    folder = cache_folder() / "java" / version
    with alone(folder):
        if not folder.is_dir():
            _fetch(version, folder)
        _verify(version, folder)
    return folder


def classpath(version: str) -> str:
    """Return the class path of a version: an archive of classes fits one order of the jars."""
    return ":".join(map(str, sorted(jars(version).glob("*.jar"))))


@cache
def driver_classpath(version: str) -> str:
    """Class path to run the drivers against the jars of a version; compiles them if a source changed."""
    folder = jars(version)
    sources = [_JAVA / "InteropClient.java"]
    if any(folder.glob("rocketmq-tools-*.jar")):
        sources.append(_JAVA / "MqAdmin.java")
    return f"{classpath(version)}:{compiled(f'driver-{version}', sources, f'{folder}/*')}"


def compiled(name: str, sources: Sequence[Path], classpath: str) -> Path:
    """Folder with the classes of these sources; compiles them when one of them changed. Raises ArtefactError."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    classes = cache_folder() / "java" / f"{name}-{digest}"
    with alone(classes):
        if not classes.is_dir():
            partial = classes.with_name(classes.name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            command = [tool("javac"), "-nowarn", "-encoding", "UTF-8", "-cp", classpath, "-d", str(partial)]
            run_tool([*command, *map(str, sources)], f"compile {name} of the tests")
            partial.rename(classes)
    return classes


def _fetch(version: str, folder: Path) -> None:
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    command = [tool("mvn"), "-q", "-B", "-f", str(_JAVA / version / "pom.xml"), _PLUGIN]
    run_tool([*command, f"-DoutputDirectory={partial}", "-DincludeScope=runtime"], f"fetch the jars of {version}")
    partial.rename(folder)


def _verify(version: str, folder: Path) -> None:
    pinned = _pins(version)
    found = {path.name: path for path in folder.iterdir()}
    if pinned.keys() != found.keys():
        odd = ", ".join(sorted(pinned.keys() ^ found.keys()))
        raise ArtefactError(f"{folder} does not hold the jars that are pinned ({odd}): delete the folder and run again")
    for name, path in found.items():
        with path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
        if actual != pinned[name]:
            raise ArtefactError(f"{path} has SHA-256 {actual}, pinned is {pinned[name]}: do not run it")


def _pins(version: str) -> dict[str, str]:
    pinned: dict[str, str] = {}
    for line in (_JAVA / f"jars-{version}.sha256").read_text(encoding="ascii").splitlines():
        digest, name = line.split()
        pinned[name] = digest
    return pinned


def run_tool(command: list[str], purpose: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a program to its end, in this environment. Raises ArtefactError with its output if it fails."""
    variables = {**os.environ, **(environment or {})}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
    if done.returncode != 0:
        raise ArtefactError(f"could not {purpose} (is there a network?):\n{(done.stdout + done.stderr)[-2000:]}")


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """One process at a time makes a folder or a file of the cache: test runs may go side by side."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Fetch the jars of all versions the suite runs; the sentence of what went wrong ends the program."""
    try:
        for version in (*CLIENT_VERSIONS, OLD_BROKER_VERSION, f"{BROKER_VERSION}-example"):
            if not (cache_folder() / "java" / version).is_dir():
                sys.stdout.write(f"bolide: fetching the jars of {version}\n")
                sys.stdout.flush()
            jars(version)
    except ArtefactError as error:
        raise SystemExit(f"bolide: {error}") from None


if __name__ == "__main__":
    main()
