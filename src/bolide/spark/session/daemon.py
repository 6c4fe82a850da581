"""The parent of a local session's Python workers: PySpark's own, without its trace when a session ends first.

A session that stops, or a job that has all the rows it wants, closes the socket of a worker that may still have a few
bytes to write. PySpark's daemon then prints the trace of a BrokenPipeError to the standard error of the user's
command. Nothing is wrong, and nobody waits for those bytes. `spark.python.daemon.module` names this module.
"""

from __future__ import annotations

import os
from socket import socket
from typing import Final

from pyspark import daemon

GONE: Final = 1
"""Exit code of a worker that nobody listens to any more: the daemon does not use it again."""

_serve: Final = daemon.worker


def worker(sock: socket, authenticated: bool) -> int:
    """One task, or none, from the JVM at this socket; the exit code of the worker, 0 if it may take another one."""
    try:
        return _serve(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        # The exception still holds the frame with the buffered writer. Returning would free that writer, which writes
        # the rest once more, and Python 3.13 prints that this fails.
        os._exit(GONE)


def manage() -> None:
    """Start workers until the JVM closes the standard input of this process."""
    daemon.worker = worker
    daemon.manager()


if __name__ == "__main__":
    manage()
