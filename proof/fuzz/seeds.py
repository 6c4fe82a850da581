"""Good inputs to begin with: the vectors that Java's classes wrote, and files of stores that Java's brokers left."""

from __future__ import annotations

import functools
import json
import lzma
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent.parent
_PROTOCOL: Final = ROOT / "tests" / "data" / "protocol"
_GOLDEN: Final = ROOT / "tests" / "data" / "golden"
CORPUS: Final = Path(__file__).parent / "corpus"
FRAME_KINDS: Final = ("json_frame", "binary_frame")


@functools.cache
def _loaded(name: str) -> Any:
    return json.loads((_PROTOCOL / name).read_text(encoding="utf-8"))


def vectors(section: str) -> list[dict[str, Any]]:
    """A section of vectors.json."""
    return list(_loaded("vectors.json")[section])


def requests() -> list[dict[str, Any]]:
    """Every request of RocketMQ, with its header class."""
    return list(_loaded("remoting.json")["requests"])


def frames() -> list[bytes]:
    """Whole frames, in both serializations."""
    return [bytes.fromhex(vector[kind]) for vector in vectors("frames") for kind in FRAME_KINDS]


def bodies() -> list[bytes]:
    """JSON as both releases of Java write it, and as they read it."""
    found = [entry[key] for entry in vectors("json_written") for key in ("5.5.0", "4.9.7") if key in entry]
    found += [entry["input"] for entry in vectors("json_read")]
    return [text.encode("utf-8", "surrogatepass") for text in found if isinstance(text, str)]


def records() -> list[bytes]:
    """Records of the log."""
    return [bytes.fromhex(vector["record"]) for vector in vectors("commitlog_records")]


def batches() -> list[bytes]:
    """Bodies of batches."""
    return [bytes.fromhex(vector["body"]) for vector in vectors("batch_bodies")]


def registrations() -> list[bytes]:
    """Bodies of REGISTER_BROKER, plain and compressed."""
    found: list[bytes] = []
    for vector in vectors("register_broker_bodies"):
        for key, value in vector.items():
            if isinstance(value, str):
                found.append(value.encode() if key.startswith("plain") else _unhexed(value))
    return found


def compressed() -> list[bytes]:
    """Compressed bodies of all kinds."""
    return [bytes.fromhex(vector["hex"]) for vector in vectors("compression")]


def properties_texts() -> list[bytes]:
    """Texts of java.util.Properties."""
    return [str(vector["text"]).encode() for vector in vectors("properties_texts") if "text" in vector]


def filters() -> list[str]:
    """SQL92 expressions, valid and not."""
    found: list[str] = []
    _collect(_loaded("sql92_vectors.json"), found)
    return sorted(set(found), key=lambda text: (len(text), text))


def _collect(value: Any, found: list[str]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str) and key in ("expression", "expr", "text", "sql"):
                found.append(item)
            else:
                _collect(item, found)
    elif isinstance(value, list):
        for item in value:
            _collect(item, found)


def _unhexed(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return text.encode()


@functools.cache
def golden(name: str) -> dict[str, bytes]:
    """The files of a golden store (`4.9.7-clean`, `5.5.0-ext`, ...) by their path below the store folder."""
    found: dict[str, bytes] = {}
    with lzma.open(_GOLDEN / f"store-{name}.tar.xz") as raw, tarfile.open(fileobj=raw) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                found[member.name.partition("/store/")[2] or member.name] = file.read()
    return found


def golden_files(names: Iterable[str], prefix: str, most: int = 4096) -> list[bytes]:
    """The heads of the files below `prefix` in these stores, each once."""
    found: dict[bytes, None] = {}
    for name in names:
        for path, data in golden(name).items():
            if path.startswith(prefix):
                found[data[:most].rstrip(b"\0")] = None
    return list(found)
