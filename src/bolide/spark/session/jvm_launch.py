"""Records how Spark's own scripts started the JVM of a session, and where the archive of its classes is.

A start of Spark loads nine thousand classes from 280 jars and verifies each, which is most of its processor time. Java
can keep them in a file in memory format (class data sharing): `jvm_training` makes one, for one Java and one set of
jars. Java itself ignores a file that does not match.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

FOLDER_VARIABLE: Final = "BOLIDE_SPARK_CACHE"
"""The folder to use instead of the user's cache folder; `off` for none."""
_QUIET: Final = ("-Xshare:auto", "-Xlog:disable")
_JAVA_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_FORM: Final = "1"


@dataclass(frozen=True)
class Launch:
    """The command of a JVM, without what each session sets itself."""

    java: str
    class_path: str
    options: list[str]


def cache_folder() -> Path | None:
    """The folder; None if it is off."""
    named = os.environ.get(FOLDER_VARIABLE, "")
    if named:
        return None if named == "off" else Path(named).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "bolide" / "spark" if os.path.isabs(home) else None


def java_program() -> str | None:
    """The Java that Spark uses."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else shutil.which("java")


@dataclass(frozen=True)
class Kept:
    """The files for one Java and one set of jars."""

    folder: Path
    key: str
    java: str

    @property
    def archive(self) -> Path:
        """The classes."""
        return self.folder / f"{self.key}.jsa"

    @property
    def record(self) -> Path:
        """The command."""
        return self.folder / f"{self.key}.json"

    def launch(self, archive: bool = True) -> Launch | None:
        """The recorded command, if there is one; with the archive, if there is one."""
        try:
            launch = Launch(**json.loads(self.record.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        options = [*launch.options, *_QUIET]
        if archive and self.archive.is_file():
            options.append(f"-XX:SharedArchiveFile={self.archive}")
        return Launch(launch.java, launch.class_path, options)

    def note(self, class_path: str, options: list[str]) -> None:
        """Record a command. If that fails, nothing is recorded, and starts stay slow.

        Two processes may do so at once: each writes a complete file, and either is valid.
        """
        if any(name in os.environ for name in _JAVA_VARIABLES):
            return  # some of the options are those
        launch = Launch(self.java, class_path, options)
        fresh = self.folder / f"{self.key}.{os.getpid()}.new"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh.write_text(json.dumps(asdict(launch)), encoding="utf-8")
            os.replace(fresh, self.record)
            self.forget_others()
        except OSError:
            with suppress(OSError):
                fresh.unlink()

    def forget_others(self) -> None:
        """Delete the files of earlier versions of the same Java and jars, and of jars that no longer exist."""
        mine = self.launch(archive=False)
        for record in self.folder.glob("*.json"):
            other = Kept(self.folder, record.stem, self.java)
            found = other.launch(archive=False)
            if other.key == self.key or found is None:
                continue
            if found == mine or not any(map(os.path.exists, found.class_path.split(os.pathsep))):
                other.archive.unlink(missing_ok=True)
                record.unlink(missing_ok=True)


def kept_for(jars: Path) -> Kept | None:
    """The files for these jars and the Java that Spark uses; None if it is off.

    Java refuses an archive of jars with other times or sizes; so the name contains them, and a new one is made.
    """
    folder, java = cache_folder(), java_program()
    if folder is None or java is None:
        return None
    try:
        parts = [_FORM, os.path.realpath(java), str(os.stat(java).st_mtime_ns), str(jars)]
        for entry in sorted(os.scandir(jars), key=lambda entry: entry.name):
            stat = entry.stat()
            parts.append(f"{entry.name} {stat.st_size} {stat.st_mtime_ns}")
    except OSError:
        return None
    return Kept(folder, hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24], java)
