"""The vectors of `tests/data/protocol`, made by running RocketMQ's own classes."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any


@functools.cache
def vectors() -> dict[str, Any]:
    """All groups by name."""
    path = Path(__file__).parent.parent / "data" / "protocol" / "vectors.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found
