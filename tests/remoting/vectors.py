"""The vectors and tables read from the running Java classes, as the tests of this room need them."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

PROTOCOL = Path(__file__).parent.parent / "data" / "protocol"


@functools.cache
def _load(name: str) -> dict[str, Any]:
    return dict(json.loads((PROTOCOL / name).read_text(encoding="utf-8")))


def vectors(section: str) -> list[dict[str, Any]]:
    """A section of vectors.json."""
    return list(_load("vectors.json")[section])


def requests() -> list[dict[str, Any]]:
    """The request table of remoting.json."""
    return list(_load("remoting.json")["requests"])


def responses() -> list[dict[str, Any]]:
    """The response table of remoting.json."""
    return list(_load("remoting.json")["responses"])


def frames() -> list[Any]:
    """Every frame vector in both serialize types: (vector, bytes)."""
    return [
        (vector, bytes.fromhex(vector[kind])) for vector in vectors("frames") for kind in ("json_frame", "binary_frame")
    ]
