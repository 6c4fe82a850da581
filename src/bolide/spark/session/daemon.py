"""The parent of a local session's Python workers: PySpark's daemon, without its traceback when a session ends first.

A session that stops, or a job that needs no more rows, closes the socket of a worker that may still have a few bytes to
write. PySpark's daemon then prints the traceback of a BrokenPipeError to the standard error of the user's command,
although this is not an error. `spark.python.daemon.module` is set to this module.
"""

from __future__ import annotations

import os
from socket import socket
from typing import Final

from pyspark import daemon

GONE: Final = 1
"""Exit code of a worker whose socket was closed. The daemon does not reuse it."""

_serve: Final = daemon.worker


def worker(sock: socket, authenticated: bool) -> int:
    """Run at most one task from the JVM at this socket. Returns the exit code of the worker, 0 if it is reusable."""
    try:
        return _serve(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        # The exception refers to the frame with the buffered writer. Returning would free that writer, which would
        # write the rest again, and Python 3.13 would print that this fails.
        os._exit(GONE)


def manage() -> None:
    """Start workers until the JVM closes the standard input of this process."""
    daemon.worker = worker
    daemon.manager()


if __name__ == "__main__":
    manage()
