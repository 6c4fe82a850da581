"""The build backend: setuptools, and when that is wanted and possible mypyc over the modules of `compiled.COMPILED` and
Cython over those of `compiled.NATIVE`.

``BOLIDE_BUILD`` chooses: ``auto`` compiles where a C compiler is found and falls back to interpreted Python when
anything goes wrong; ``yes`` compiles or fails; ``no`` makes a pure wheel for any platform. All or nothing: compiled
modules share one library, so a wheel with a part of them does not import. An editable install is never compiled:
a stale extension would go on answering in place of edited source, without a word.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from setuptools import Extension, build_meta
from setuptools.build_meta import build_sdist, get_requires_for_build_sdist

from compiled import COMPILED, NATIVE

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

# Exact: another mypy may refuse the source or compile it differently. msgspec is here for its types, which the
# compiled modules see through the modules they import.
COMPILE_NEEDS = ["mypy==2.4.1", "msgspec>=0.20", "Cython==3.3.1", "pybind11>=3.0"]

TRANSLATION: Final = 0.5
"""Estimated seconds per module of the steps that one process does: mypy, mypyc and the linker."""
COMPILATION: Final = 1.0
"""Estimated seconds of processor time that the C compiler needs per module."""

Settings = dict[str, Any] | None
_scratch: Path | None = None
"""Where generated C goes while a compiled build runs; None tells `extensions` to make none."""


def choice() -> str:
    """The value of ``BOLIDE_BUILD``."""
    value = os.environ.get("BOLIDE_BUILD") or "auto"
    if value not in ("auto", "yes", "no"):
        raise SystemExit(f"BOLIDE_BUILD is {value!r}; set it to auto, yes or no, or leave it out")
    return value


def reason_not_to_compile() -> str | None:
    """Why this build stays interpreted, or None when it is to be compiled."""
    if choice() == "no":
        return "BOLIDE_BUILD=no"
    if choice() == "yes":
        return None
    if sys.implementation.name != "cpython":
        return f"mypyc compiles for CPython, this is {sys.implementation.name}"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if os.name != "nt" and not shutil.which(compiler) and not shutil.which("cc"):
        return f"no C compiler: {compiler} is not on the PATH"
    return None


def processes() -> int:
    """Number of C compilers that run at the same time: the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def announcement(modules: int, native: int, compilers: int) -> str:
    """Return the first line of a compiled build: modules, number of parallel compilers, estimated time."""
    seconds = (modules + native) * (TRANSLATION + COMPILATION / compilers)
    compiling = f"compiling {modules} modules by mypyc and {native} by Cython"
    at_once = "one C file at a time" if compilers == 1 else f"{compilers} C files at a time"
    minutes = math.ceil(seconds / 60)
    return f"{compiling}, {at_once}: about {minutes} minutes; BOLIDE_BUILD=no installs without compiling"


def say(text: str) -> None:
    """Write one line to standard error. pip shows it with `-v`, otherwise only if the build fails."""
    print(f"bolide: {text}", file=sys.stderr, flush=True)


def extensions() -> list[Extension]:
    """The extensions of the build under way, for setup.py: none unless `build_wheel` asked for them."""
    if _scratch is None:
        return []
    from mypyc.build import mypycify

    sources = [f"src/{name.replace('.', '/')}.py" for name in sorted(COMPILED)]
    # The project's own mypy settings are for the lint run; a build only wants the types, so that a warning
    # newly invented by mypy never stops an install.
    flags = ["--config-file=", "--follow-imports=silent", "--ignore-missing-imports", f"--cache-dir={_scratch}/mypy"]
    # One C file per module: gcc needs three times as long for all modules in one, and one core does it all.
    made: list[Extension] = mypycify(
        [*flags, *sources],
        opt_level="3",
        debug_level="0",
        multi_file=True,
        group_name="bolide",
        target_dir=str(_scratch / "c"),
    )
    if os.name != "nt":  # calls between modules go directly, as no other library can replace a function
        for extension in made:
            extension.extra_compile_args = [*extension.extra_compile_args, "-fvisibility=hidden"]
    return [*made, *_native(_scratch)]


def _native(scratch: Path) -> list[Extension]:
    """The modules that are written in Cython, as C below `scratch`."""
    from Cython.Build import cythonize

    sources = [Extension(name, [f"src/{name.replace('.', '/')}.pyx"]) for name in sorted(NATIVE)]
    made: list[Extension] = cythonize(sources, build_dir=str(scratch / "cython"), quiet=True)
    return made


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What the build needs beside setuptools: the compiler from Python to C, only when it will be used."""
    with _building(compiled=False):
        needs = list(build_meta.get_requires_for_build_wheel(config_settings))
    return needs if reason_not_to_compile() else [*needs, *COMPILE_NEEDS]


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """The wheel's metadata, without building it."""
    with _building(compiled=False):
        name: str = build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    return name


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build the wheel: compiled, else interpreted, as ``BOLIDE_BUILD`` specifies.

    Reports the modules and the estimated time before the compilation, and the time that it took.
    """
    reason = reason_not_to_compile()
    if reason is None:
        compilers = processes()
        say(announcement(len(COMPILED), len(NATIVE), compilers))
        begin = time.monotonic()
        try:
            from pybind11.setup_helpers import ParallelCompile

            # pybind11 compiles the C files of one extension in parallel, setuptools the extensions.
            with _building(compiled=True), ParallelCompile(default=compilers):
                name: str = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
            took = time.monotonic() - begin
            say(f"{len(COMPILED)} modules compiled by mypyc, {len(NATIVE)} by Cython, in {took:.0f} s")
            return name
        except (Exception, SystemExit) as failure:  # mypyc leaves by SystemExit when it refuses the source
            if choice() == "yes":
                raise
            reason = f"compiling failed: {failure}"
    with _building(compiled=False):
        name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    say(f"interpreted ({reason})")
    return name


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """What an editable install needs beside setuptools."""
    with _building(compiled=False):
        return list(build_meta.get_requires_for_build_editable(config_settings))


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Settings = None) -> str:
    """The metadata of an editable install."""
    with _building(compiled=False):
        name: str = build_meta.prepare_metadata_for_build_editable(metadata_directory, config_settings)
    return name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """An editable install, always interpreted."""
    name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    return name


@contextmanager
def _building(compiled: bool) -> Iterator[None]:
    """One step of a build in a scratch folder of its own, below ``build/`` since sources must have relative paths.

    setuptools packs whatever an earlier build left in its folder, and metadata left beside the source would declare
    entry points to every interpreter that has the source on its path.
    """
    global _scratch
    top = Path("build")
    top.mkdir(exist_ok=True)
    folder = Path(os.path.relpath(tempfile.mkdtemp(prefix="bolide-", dir=top)))
    config = folder / "distutils.cfg"
    parallel = processes()
    config.write_text(f"[build]\nbuild_base = {folder}/base\nparallel = {parallel}\n[egg_info]\negg_base = {folder}\n")
    before = os.environ.get("DIST_EXTRA_CONFIG")
    os.environ["DIST_EXTRA_CONFIG"] = str(config)
    _scratch = folder if compiled else None
    try:
        yield
    finally:
        _scratch = None
        if before is None:
            del os.environ["DIST_EXTRA_CONFIG"]
        else:
            os.environ["DIST_EXTRA_CONFIG"] = before
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another build is in there
            top.rmdir()
