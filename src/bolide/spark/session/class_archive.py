"""An archive of Spark's classes: `bolide spark prepare` creates it, and local sessions load it if it exists.

At startup, Spark loads nine thousand classes from 280 jars and verifies each, which takes most of its processor time.
Java can map them from a file instead (class data sharing). The file fits one Java and one set of jars, and Java ignores
it otherwise. Spark passes Java's options for this to the JVM, which PySpark starts and stops as usual.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from bolide.interpreter import python
from bolide.spark.errors import OptionError, SparkMissing

FOLDER_VARIABLE: Final = "BOLIDE_SPARK_CACHE"
"""Variable with a folder to use instead of the user's cache folder. `off` disables archives."""
_FORM: Final = "2"
_TRAIN: Final = "from bolide.spark.session.archive_training import train; import sys; train(sys.argv[1])"
_LIMIT_S: Final = 600.0


@dataclass(frozen=True)
class Prepared:
    """The archive that `prepare` found or created."""

    path: str
    size: int
    """Size in bytes."""
    seconds: float
    """Duration in seconds, 0 if the archive already existed."""


@dataclass(frozen=True)
class Archive:
    """The location of the archive for a Java and a set of jars. It need not exist."""

    folder: Path
    package: Path

    @property
    def path(self) -> Path:
        """File with the classes."""
        return self.folder / "classes.jsa"

    @property
    def home(self) -> Path:
        """SPARK_HOME for sessions with this archive. Java compares the paths of the jars, so they must not change."""
        return self.folder / "home"

    def exists(self) -> bool:
        """Whether sessions can load it."""
        return self.path.is_file()

    def options(self) -> str:
        """Java options that load the archive. Java silently ignores an archive that does not fit."""
        return f"{shlex.quote(f'-XX:SharedArchiveFile={self.path}')} -Xshare:auto -Xlog:disable"


def spark_package() -> Path:
    """Return the folder of PySpark without importing it. Raises `SparkMissing` if it is not installed."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise SparkMissing('Spark is not installed: pip install "bolide[spark]"')
    return Path(found.origin).parent


def cache_folder() -> Path | None:
    """Return the folder of all archives, or None if archives are disabled."""
    named = os.environ.get(FOLDER_VARIABLE, "")
    if named:
        return None if named == "off" else Path(named).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "bolide" / "spark" if os.path.isabs(home) else None


def java_program() -> str | None:
    """Return the path of the Java that Spark uses, or None."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else shutil.which("java")


def archive_of(package: Path) -> Archive | None:
    """Return the location for this PySpark and the Java that Spark uses, or None without Java or a folder.

    Java rejects an archive of jars with different times or sizes, so these are part of the name.
    """
    folder, java = cache_folder(), java_program()
    if folder is None or java is None:
        return None
    try:
        parts = [_FORM, os.path.realpath(java), str(os.stat(java).st_mtime_ns), str(package)]
        for entry in sorted(os.scandir(package / "jars"), key=lambda entry: entry.name):
            stat = entry.stat()
            parts.append(f"{entry.name} {stat.st_size} {stat.st_mtime_ns}")
    except OSError:
        return None
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
    return Archive(folder / key, package)


def link_home(home: Path, package: Path) -> None:
    """Create a SPARK_HOME without the zip of pyspark: workers then import the installed package, with its byte code.

    This saves each worker about a second of processor time.
    """
    home.mkdir(parents=True, exist_ok=True)
    for part in ("bin", "sbin", "jars"):
        if not (home / part).exists():
            (home / part).symlink_to(package / part)


def prepare() -> Prepared:
    """Create the archive for this Java and this PySpark, unless it exists. Raises `OptionError` if that fails.

    Two processes may do this concurrently: each writes a separate file and renames it.
    """
    began = time.monotonic()
    archive = archive_of(spark_package())
    if archive is None:
        raise OptionError(f"no Java or no folder was found: install Java 17, or name a folder in {FOLDER_VARIABLE}")
    if archive.exists():
        return Prepared(str(archive.path), archive.path.stat().st_size, 0.0)
    link_home(archive.home, archive.package)
    fresh = archive.folder / f"{os.getpid()}.jsa"
    environment = {**os.environ, "SPARK_HOME": str(archive.home)}
    # The JVM writes the file at its end, after the end of the program, so wait for the end of its output.
    command = python("-c", _TRAIN, str(fresh))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    try:
        if not fresh.is_file():
            why = (done.stderr.strip().splitlines() or ["Java wrote none"])[-1]
            raise OptionError(f"no archive of Spark's classes was made: {why}; it needs Java 17 or newer")
        os.replace(fresh, archive.path)
    finally:
        fresh.unlink(missing_ok=True)
    forget_others(archive)
    return Prepared(str(archive.path), archive.path.stat().st_size, time.monotonic() - began)


def forget_others(archive: Archive) -> None:
    """Delete archives for this PySpark with an old Java or old jars, and archives of removed PySparks."""
    for home in archive.folder.parent.glob("*/home"):
        jars = home / "jars"
        if home != archive.home and (not jars.exists() or jars.resolve() == (archive.package / "jars").resolve()):
            shutil.rmtree(home.parent, ignore_errors=True)
