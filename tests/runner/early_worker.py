"""A Python for Spark's workers that calls back before it imports PySpark.

Spark gives the Python process of a stream ten seconds to call back, and no setting changes that. The imports before
the call take 0.4 s of processor time, which a busy machine may stretch beyond the limit; a bare start takes 0.02 s.
"""

from __future__ import annotations

import os
import runpy
import socket
import struct
import sys
from typing import Any, Final

_LENGTH: Final = struct.Struct(">i")
_BUFFER: Final = 65536


def python_for_workers(folder: str) -> str:
    """Write the program for PYSPARK_PYTHON into `folder` and return its path. Spark's daemon is not affected."""
    path = os.path.join(folder, "python-for-workers")
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "#!/bin/sh\n"
            f'[ -z "$PYTHON_WORKER_FACTORY_PORT" ] || set -- "{os.path.abspath(__file__)}" "$@"\n'
            f'exec "{sys.executable}" "$@"\n'
        )
    os.chmod(path, 0o755)
    return path


def main(module: str) -> None:
    """Run a module of PySpark that calls back once, on a connection that is open already."""
    connection = socket.create_connection(("127.0.0.1", int(os.environ["PYTHON_WORKER_FACTORY_PORT"])))
    stream = connection.makefile("rwb", _BUFFER)
    secret = os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode()
    stream.write(_LENGTH.pack(len(secret)) + secret)
    stream.flush()
    assert stream.read(_LENGTH.unpack(stream.read(_LENGTH.size))[0]) == b"ok"

    sys.path[0] = os.getcwd()  # as for `python -m`
    from pyspark import util

    def called_back(*of: Any) -> tuple[Any, socket.socket]:
        return stream, connection

    util.local_connect_and_auth = called_back
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[2])  # -m module
