"""Builds an archive with everything that an executor needs to run Bolide: an interpreter, its library, and the
packages.

Spark unpacks it for each executor (`--archives FILE#bolide`, `spark.pyspark.python=./bolide/bin/python3`), so workers
need only Java and Spark. This is possible because a copied CPython finds its library relative to itself. Hosts must
have the same Linux, processor and C library, as for any archive of compiled code.
"""

from __future__ import annotations

import io
import os
import re
import sys
import sysconfig
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from bolide.errors import LocalError
from bolide.job_progress import JobProgress
from bolide.spark.session.progress import OnProgress, no_progress

NEEDED: Final = ("librt", "lz4", "msgspec", "mypy-extensions", "numpy", "pyarrow", "pyspark", "zstandard")
"""Packages that Bolide's executors import. The archive also contains their requirements, and Bolide as it runs here,
but not Spark's Java classes, which the cluster has."""
_SKIPPED_FOLDERS: Final = frozenset({
    "__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "turtledemo", "tkinter", "ensurepip",
    "lib2to3", "jars", "examples", "sbin", "licenses", "R", "data", "kubernetes", "include",
})  # fmt: skip
_BINARY: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
_STARTER: Final = f"""#!/bin/sh
# The interpreter's own library lies beside it, wherever this was unpacked.
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH="$here/../lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" exec "$here/{_BINARY}" "$@"
""".encode()
_NAME: Final = re.compile(r"^[A-Za-z0-9._-]+")


class CannotPack(LocalError):
    """A package or a part of the interpreter is missing. The text contains its name."""


@dataclass(frozen=True)
class Packed:
    """The result of `pack`: the archive, its size in bytes, its number of files, and the distributions."""

    path: str
    size: int
    files: int
    distributions: tuple[str, ...]


def pack(out: str, extra: Sequence[str] = (), show: OnProgress = no_progress) -> Packed:
    """Write the archive (`.tar.gz`), with additional distributions `extra`. Raises `CannotPack` if a package or a part
    of the interpreter is missing. Leaves no partial file."""
    began = time.monotonic()
    inside = f"lib/{_BINARY}"
    names = _closure([*NEEDED, *extra])
    files = dict(_interpreter(inside))
    for source, place in _bolide_itself():
        files[f"{inside}/site-packages/{place}"] = source
    for name in names:
        for source, place in _distribution(name):
            files[f"{inside}/site-packages/{place}"] = source
    half = f"{out}.part"
    try:
        with tarfile.open(half, "w:gz", compresslevel=3) as archive:
            starter = tarfile.TarInfo("bin/python3")
            starter.size, starter.mode = len(_STARTER), 0o755
            archive.addfile(starter, io.BytesIO(_STARTER))
            for count, (place, source) in enumerate(sorted(files.items())):
                archive.add(source, place, recursive=False)
                if count % 200 == 0:
                    show(JobProgress("packing", count, len(files), time.monotonic() - began))
        os.replace(half, out)
    except BaseException:
        Path(half).unlink(missing_ok=True)
        raise
    show(JobProgress("packing", len(files), len(files), time.monotonic() - began))
    return Packed(out, Path(out).stat().st_size, len(files), ("bolide", *names))


def _closure(wanted: Sequence[str]) -> list[str]:
    """Return the distributions and their requirements without extras, without duplicates, sorted by name."""
    found: set[str] = set()
    queue = [_normal(name) for name in wanted]
    while queue:
        name = queue.pop()
        if name in found:
            continue
        try:
            requires = metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:
            raise CannotPack(f"{name} is not installed here, so it cannot be packed: install it") from None
        found.add(name)
        for text in requires:
            match = _NAME.match(text)
            if match and "extra ==" not in text and _wanted_here(text):
                queue.append(_normal(match[0]))
    return sorted(found)


def _wanted_here(requirement: str) -> bool:
    """Return whether a requirement's marker, such as a version of Python or a system, is true on this host."""
    _, _, marker = requirement.partition(";")
    if not marker.strip():
        return True
    try:
        from packaging.markers import Marker
    except ImportError:
        return False
    return Marker(marker.strip()).evaluate()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _distribution(name: str) -> Iterator[tuple[Path, str]]:
    """Yield the files of an installed distribution, each with its path below site-packages."""
    distribution = metadata.distribution(name)
    for file in distribution.files or []:
        parts = file.parts
        if ".." in parts or file.is_absolute() or file.suffix in (".pth", ".pyc"):
            continue
        if _SKIPPED_FOLDERS & set(parts[:-1]) and not parts[0].endswith((".libs", "-info")):
            continue
        source = Path(str(distribution.locate_file(file)))
        if source.is_file():
            yield source, "/".join(parts)


def _bolide_itself() -> Iterator[tuple[Path, str]]:
    """Yield the files of this package, even of an editable install, and its two modules for Spark."""
    import bolide

    [home] = bolide.__path__
    root = Path(home).parent
    for source in sorted(Path(home).rglob("*")):
        if source.is_file() and source.suffix != ".pyc":
            yield source, str(source.relative_to(root))
    for door in root.glob("pyspark_rocketmq*.py"):
        yield door, door.name
    for library in root.glob("*__mypyc*.so"):
        yield library, library.name


def _interpreter(inside: str) -> Iterator[tuple[str, Path]]:
    """Yield the interpreter, its shared library, and its standard library."""
    if sys.platform != "linux":
        raise CannotPack("only an interpreter on Linux can be packed: run this where the executors run")
    base = getattr(sys, "_base_executable", sys.executable)  # in a virtual environment, its base interpreter
    yield f"bin/{_BINARY}", Path(base).resolve()
    library = sysconfig.get_config_var("INSTSONAME") or ""
    shared = Path(sysconfig.get_config_var("LIBDIR") or "") / library
    if ".so" in library:
        if not shared.is_file():
            raise CannotPack(f"the interpreter's own library {shared} does not exist: pack with another Python")
        yield f"lib/{library}", shared.resolve()
    standard = Path(sysconfig.get_path("stdlib"))
    for folder, folders, names in os.walk(standard):
        folders[:] = sorted(each for each in folders if each not in _SKIPPED_FOLDERS and not each.startswith("config-"))
        for name in names:
            if not name.endswith((".pyc", ".a")):
                source = Path(folder) / name
                yield f"{inside}/{source.relative_to(standard)}", source.resolve()
