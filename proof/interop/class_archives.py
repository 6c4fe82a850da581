"""Archives of the classes of RocketMQ's releases, for JVMs that run for seconds.

A broker loads five thousand classes from 137 jars at its start, which takes half of its processor time. Java can map
the classes from a file instead (class data sharing). The file fits one Java and one set of jars, and Java ignores it
otherwise, so the name of the file depends on both. Name server, broker, client and `mqadmin` list the classes that
they load (`train_archive`), and one more JVM writes these classes into the file.
"""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from proof.interop.java_artefacts import alone, cache_folder, classpath, jars, run_tool, tool

_LISTS = "BOLIDE_CLASS_LISTS"
"""Names the folder of the lists in the process that runs RocketMQ for an archive."""


def class_sharing(version: str) -> list[str]:
    """Return the flags with which a JVM maps the classes of a release. Makes the archive unless it exists."""
    lists = os.environ.get(_LISTS)
    if lists:
        return [f"-XX:DumpLoadedClassList={lists}/%p"]
    return [f"-XX:SharedArchiveFile={archive(version)}", "-Xshare:auto"]


@cache
def archive(version: str) -> Path:
    """Return the archive of a release. Makes it unless it exists. Raises ArtefactError."""
    folder = cache_folder() / "java" / f"{version}.classes"
    path = folder / f"{_key(version)}.jsa"
    with alone(path):
        if not path.exists():
            for other in folder.glob("*.jsa"):  # it fits another Java, or jars that were fetched again
                other.unlink()
            with TemporaryDirectory(prefix="bolide-") as lists:
                _write(version, Path(lists), path)
    return path


def _key(version: str) -> str:
    """Return a name for this Java and these jars. Java compares their times."""
    java = Path(tool("java")).resolve()
    parts = [f"{file} {file.stat().st_mtime_ns}" for file in (java, *sorted(jars(version).glob("*.jar")))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _write(version: str, lists: Path, path: Path) -> None:
    training = [sys.executable, "-m", "proof.interop.train_archive", version]
    run_tool(training, f"run {version} for its archive of classes", {_LISTS: str(lists)})
    # A list ends in the middle of a line, because its JVM was killed.
    lines = [line for one in lists.iterdir() for line in one.read_text("utf-8").splitlines(keepends=True)]
    whole = dict.fromkeys(line for line in lines if line.endswith("\n") and not line.startswith("#"))
    classes = lists / "classes"
    classes.write_text("".join(whole), "utf-8")
    partial = path.with_suffix(".partial")
    flags = [f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={partial}", "-Xlog:disable"]
    command = [tool("java"), "-Xshare:dump", *flags, "-cp", classpath(version)]
    run_tool(command, f"write the archive of classes of {version}")
    partial.rename(path)
