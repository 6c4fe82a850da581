"""The warning about a client that was started and never closed: its last sends and offsets are left to chance."""

from __future__ import annotations

import os
import warnings


class Closeable:
    """Base of clients that must be closed; one that is not gives a `ResourceWarning`, as an unclosed file does."""

    _open_in = 0
    """The process in which it was started, 0 while it is not open. A child of that process has nothing to close."""
    _open_as = ""

    def _opened(self, name: str) -> None:
        """It is started; `name` is what the warning calls it."""
        self._open_in = os.getpid()
        self._open_as = name

    def _closing(self) -> None:
        """Its user closes it."""
        self._open_in = 0

    def _warn_unclosed(self) -> None:
        """Warn once if it is still open."""
        pid, self._open_in = self._open_in, 0
        if pid and pid == os.getpid():
            text = f"Unclosed {self._open_as}: close it, or use it in a `with` or `async with` block"
            warnings.warn(text, ResourceWarning, stacklevel=3, source=self)

    def __del__(self) -> None:
        self._warn_unclosed()
