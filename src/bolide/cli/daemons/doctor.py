"""`bolide doctor`: checks whether this host meets the requirements of Bolide and its optional parts."""

from __future__ import annotations

import importlib.util
import math
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import typer

from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.world.home import expanded

OK = "ok"
WARN = "warning"
BAD = "error"
OPEN_FILES_WANTED = 4096
SPARK_JAVA = 17
EXTRA_SPARK = ("fastavro", "google.protobuf", "matplotlib", "numpy", "pandas", "pyarrow", "pyspark")
"""The modules that the extra `spark` installs."""


@dataclass
class Diagnosis:
    """The result of a check, and how to fix the problem."""

    what: str
    state: str
    detail: str


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(doctor)


def doctor(
    store: Path | None = typer.Option(None, help="Check the disk of this store folder, instead of the default one."),
    as_json: bool = JsonFlag,
) -> None:
    """Check Python, compiled modules, libraries, Java, limits and disk. Exit code 1 if something is wrong."""
    with boundary():
        found = [python(), implementation(), *libraries(), *added(), java(), open_files(), *disk(store)]
        rows = [(finding.what, finding.state, finding.detail) for finding in found]
        output.table("This machine", ("What", "State", "Detail"), rows, as_json)
        if any(finding.state == BAD for finding in found):
            raise typer.Exit(output.FAILED)


def python() -> Diagnosis:
    """Check the version of Python."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Diagnosis("Python", OK if sys.version_info >= (3, 11) else BAD, f"{version} at {sys.executable}")


def implementation() -> Diagnosis:
    """Check whether the hot modules are compiled."""
    from bolide import _impl

    if _impl.compiled_modules():
        return Diagnosis("Hot modules", OK, _impl.describe())
    return Diagnosis(
        "Hot modules", WARN, f"{_impl.describe()}: install a C compiler and reinstall for several times the speed"
    )


def libraries() -> list[Diagnosis]:
    """Check the libraries of optional parts."""
    found = []
    for part, names in (
        ("uvloop (faster loop)", ("uvloop",)),
        ("extra spark", EXTRA_SPARK),
    ):
        missing = [name for name in names if not _installed(name)]
        detail = "installed" if not missing else f"not installed: {', '.join(missing)}"
        found.append(Diagnosis(part, OK if not missing else WARN, detail))
    return found


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package `google` is missing, too
        return False


def added() -> list[Diagnosis]:
    """Check whether each installed plug-in can be loaded."""
    from bolide import plugins
    from bolide.errors import ConfigError

    found = []
    for plugin in plugins.installed():
        state, detail = OK, f"{plugin.value} of {plugin.package}"
        if plugin.name in plugin.kind.built_in:
            state, detail = WARN, f"{detail} is never used: the built-in one has its name"
        else:
            try:
                plugins.find(plugin.kind, plugin.name)
            except ConfigError as error:
                state, detail = BAD, str(error)
        found.append(Diagnosis(f"{plugin.kind.noun} {plugin.name}", state, detail))
    return found


def java() -> Diagnosis:
    """Check the Java that Spark would use."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None or not Path(program).exists():
        return Diagnosis("Java", WARN, f"none found: Spark needs {SPARK_JAVA} or later; broker and client need none")
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Diagnosis("Java", WARN, f"{program} does not run: {error}")
    first = (answer.stderr or answer.stdout).splitlines()[:1]
    text = first[0] if first else ""
    digits = text.partition('"')[2].partition('"')[0].split(".")
    major = int(digits[0]) if digits and digits[0].isdecimal() else 0
    state = OK if major >= SPARK_JAVA else WARN
    return Diagnosis(
        "Java", state, f"{text} at {program}" + ("" if state == OK else f": Spark needs {SPARK_JAVA} or newer")
    )


def open_files() -> Diagnosis:
    """Check the limit of open files, which include connections and queue files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    state = OK if soft >= OPEN_FILES_WANTED else WARN
    more = "" if state == OK else f": raise it, e.g. ulimit -n {min(hard, 65_536)}"
    return Diagnosis("Open files", state, f"limit {soft} (hard {hard}){more}")


def disk(store: Path | None) -> list[Diagnosis]:
    """Check the file system of the store, and whether old messages can be read without blocking."""
    from bolide.broker.options.composed import BrokerOptions
    from bolide.store.disk.files import RealFiles

    folder = expanded(store or Path(BrokerOptions().place.store_path_root_dir)).absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    found = [room(folder, RealFiles().disk_use(str(folder)))]
    if hasattr(os, "preadv") and not hasattr(os, "RWF_NOWAIT"):
        found.append(Diagnosis("Reads without waiting", WARN, "not available: reads of old messages may delay others"))
    return found


def room(folder: Path, used: float) -> Diagnosis:
    """Report how a broker with default settings reacts at this disk usage (0.0 to 1.0, as in `df`)."""
    from bolide.store.options import StoreOptions

    options = StoreOptions()
    expiring, refusing = options.disk_max_used_space_ratio / 100, options.warning_ratio
    state = OK if used < expiring else WARN if used < refusing else BAD
    detail = f"{math.ceil(100 * used)} % used, {shutil.disk_usage(folder).free / 1e9:.1f} GB free at {folder}"
    if state != OK:
        detail += f": expired files are deleted above {expiring:.0%}, sends are refused above {refusing:.0%}"
    return Diagnosis("Disk", state, detail)
