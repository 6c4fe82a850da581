"""The inputs of a target: its seeds, what is stored in the repository, and what longer runs have collected."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

from proof.fuzz.seeds import CORPUS, ROOT
from proof.fuzz.target import Target
from proof.fuzz.watch import Finding

COLLECTED: Final = ROOT / ".cache" / "fuzz"
"""What the coverage-guided engine collects between runs; not in the repository."""


def stored(target: Target) -> list[Path]:
    """The files of a target in the repository: inputs that reach far, and those that once found a fault."""
    return sorted((CORPUS / target.name).glob("*"))


def inputs(target: Target) -> list[bytes]:
    """Seeds and stored inputs, each once."""
    found = dict.fromkeys(target.seeds())
    found.update(dict.fromkeys(path.read_bytes() for path in stored(target)))
    return list(found)


def name_of(data: bytes) -> str:
    """The file name of an input."""
    return sha256(data).hexdigest()[:16]


def store_finding(finding: Finding) -> Path:
    """Keep what found a fault; the file is where `--replay` expects it."""
    folder = CORPUS / finding.target
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"found-{finding.kind.lower()}-{finding.signature}"
    path.write_bytes(finding.data)
    return path
