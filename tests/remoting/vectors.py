"""The vectors and tables read from the running Java classes, as the tests of this room need them."""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

from bolide.remoting import headers
from bolide.remoting.headers.base import Header

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


@functools.cache
def header_classes() -> dict[str, type[Header]]:
    """Every header struct, by the name of its Java class."""
    for module in pkgutil.iter_modules(headers.__path__, headers.__name__ + "."):
        importlib.import_module(module.name)
    return {header.__name__: header for header in Header.__subclasses__()}


def request_header(code: int) -> type[Header] | None:
    """The struct of a request code's header; None when it has no fields of its own, or no struct here."""
    entry = next((entry for entry in requests() if entry["code"] == code), None)
    header = (entry or {}).get("request_header") or {}
    return header_classes().get(header.get("class", ""))


def frames() -> list[Any]:
    """Every frame vector in both serialize types: (vector, bytes)."""
    return [
        (vector, bytes.fromhex(vector[kind])) for vector in vectors("frames") for kind in ("json_frame", "binary_frame")
    ]
