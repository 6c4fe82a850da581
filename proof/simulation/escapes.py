"""Notices code of a simulated process that reaches past its world: real files, sockets, processes and threads.

Python tells an audit hook of each of these (`sys.addaudithook`). Modules that are imported late are read from real
files, and that is all they may do. Clocks and random numbers tell nobody: a house rule keeps the sources from them, and
two runs of one seed would differ.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

WATCHED: Final = frozenset(
    {
        *("open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir", "os.truncate"),
        *("socket.__new__", "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname"),
        *("os.fork", "os.posix_spawn", "os.system", "subprocess.Popen", "tempfile.mkstemp", "tempfile.mkdtemp"),
    }
)
SOURCES: Final = (".py", ".pyc", ".so", ".pyi", ".json", ".html", "METADATA", "entry_points.txt")
"""What reading a module, or finding plug-ins, opens."""
_IMPORTS: Final = frozenset({"os.listdir", "os.scandir"})


class Escape(BaseException):
    """Code of a simulated process did something for real."""


class _Watch:
    def __init__(self) -> None:
        self.inside: Callable[[], bool] | None = None
        self.installed = False

    def told(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.inside is None or event not in WATCHED or not self.inside():
            return
        if event == "open" and str(arguments[0]).endswith(SOURCES):
            return
        if event in _IMPORTS and _importing():
            return
        raise Escape(f"{event} {arguments!r:.200}")


def _importing() -> bool:
    """Whether the import system, which looks into folders, is at work."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_back is not None:
        if "importlib" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


_WATCH: Final = _Watch()


def watch(inside: Callable[[], bool] | None) -> None:
    """Raise `Escape` in code that runs while `inside` holds; None ends it."""
    _WATCH.inside = inside
    if not _WATCH.installed:
        _WATCH.installed = True
        sys.addaudithook(_WATCH.told)
