"""Selects the implementation of the hot modules: the compiled extensions or their Python sources.

``BOLIDE_IMPL`` is ``auto`` (compiled modules if the install has them), ``compiled`` (the import of ``bolide`` fails
without them) or ``python`` (a finder skips the extensions). A wheel contains both or, if built without a compiler, only
the Python sources. It never contains only some of the extensions, because they share one library.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Final

PACKAGE: Final = Path(__file__).parent
NATIVE_KERNELS: Final = (
    "bolide.broker.send.send_kernel",
    "bolide.layout.column_kernel",
    "bolide.layout.crc_kernel",
    "bolide.store.disk.page_kernel",
    "bolide.store.reading.read_kernel",
)
CHOICES: Final = ("auto", "compiled", "python")


class SourceOnly:
    """A finder that finds only the ``.py`` files of this package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the source of a module below ``bolide``, or None to pass other names to the next finders.

        Raises `ModuleNotFoundError` for the native kernels, which have no Python source.
        """
        if fullname in NATIVE_KERNELS:
            raise ModuleNotFoundError(
                f"{fullname} is not Python, and BOLIDE_IMPL=python runs only Python", name=fullname
            )
        if path is None or not fullname.startswith("bolide."):
            return None
        for folder in path:
            spec = FileFinder(folder, (SourceFileLoader, [".py"])).find_spec(fullname)
            if spec is not None and spec.loader is not None:
                return spec
        return None


def wanted() -> str:
    """Return the value of ``BOLIDE_IMPL``. Raises `ImportError` if it is not one of `CHOICES`."""
    choice = os.environ.get("BOLIDE_IMPL") or "auto"
    if choice not in CHOICES:
        raise ImportError(f"BOLIDE_IMPL is {choice!r}; set it to one of {', '.join(CHOICES)} or leave it out")
    return choice


def extensions() -> list[str]:
    """Return the sorted dotted names of the modules with a compiled extension. Empty in a checkout."""
    suffix = EXTENSION_SUFFIXES[0]
    found = (file.relative_to(PACKAGE.parent) for file in PACKAGE.rglob(f"*{suffix}"))
    return sorted(str(file)[: -len(suffix)].replace(os.sep, ".") for file in found)


def compiled_modules() -> list[str]:
    """Return the sorted dotted names of the modules that run compiled in this process. Empty if interpreted."""
    return [] if wanted() == "python" else extensions()


def describe() -> str:
    """Return one line for users: the implementation, and the number of compiled modules."""
    modules = compiled_modules()
    if modules:
        kernels = sum(name in modules for name in NATIVE_KERNELS)
        native = ", native kernels for sends and pulls" if kernels == len(NATIVE_KERNELS) else ""
        return f"compiled by mypyc ({len(modules) - kernels} modules){native}"
    return (
        "interpreted (BOLIDE_IMPL=python)" if wanted() == "python" else "interpreted (this install has no extensions)"
    )


def choose() -> None:
    """Apply ``BOLIDE_IMPL``. Called once, before any other module of the package is imported."""
    choice = wanted()
    if choice == "python" and not any(isinstance(finder, SourceOnly) for finder in sys.meta_path):
        sys.meta_path.insert(0, SourceOnly())
    if choice == "compiled" and not extensions():
        raise ImportError(
            f"BOLIDE_IMPL=compiled, but the install in {PACKAGE} has no extensions; "
            "install a wheel built with BOLIDE_BUILD=yes, or set BOLIDE_IMPL=auto"
        )
