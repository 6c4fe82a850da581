"""The program etcd, for tests and chaos."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

_SCRIPT: Final = Path(__file__).resolve().parents[2] / "tools" / "ensure_etcd.sh"


class EtcdMissing(RuntimeError):
    """etcd is not installed and could not be fetched."""


@cache
def etcd_program() -> str:
    """Return the path of etcd, which tools/ensure_etcd.sh finds or fetches. Raises EtcdMissing."""
    done = subprocess.run([_SCRIPT], stdout=subprocess.PIPE, encoding="utf-8", timeout=300, check=False)
    if done.returncode:
        raise EtcdMissing("needs etcd 3.4 or newer; run tools/ensure_etcd.sh")
    return done.stdout.strip()
