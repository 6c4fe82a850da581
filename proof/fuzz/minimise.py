"""A smaller input with the same fault: pieces are left out, then bytes made plain, while the finding stays the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from proof.fuzz.target import Target
from proof.fuzz.targets.ports import NEXT
from proof.fuzz.watch import Finding, run_watched

TRIES: Final = 600


def minimised(target: Target, finding: Finding, memory: bool = False, tries: int = TRIES) -> Finding:
    """The finding with the smallest input that `tries` calls come to."""
    left = tries

    def fails(data: bytes) -> bool:
        nonlocal left
        left -= 1
        found = run_watched(target, data, memory=memory)
        return found is not None and found.signature == finding.signature and found.data == data

    if not fails(finding.data):
        return finding
    data = finding.data
    if NEXT in data:
        parts = _fewer(data.split(NEXT), lambda kept: left > 0 and fails(NEXT.join([*kept, b""])))
        data = NEXT.join([*parts, b""])
    size = max(len(data) // 2, 1)
    while size >= 1 and left > 0:
        at = 0
        while at < len(data) and left > 0:
            shorter = data[:at] + data[at + size :]
            if shorter != data and fails(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    found = run_watched(target, data, memory=memory)
    return found if found is not None and found.signature == finding.signature else finding


def _fewer(parts: list[bytes], fails: Callable[[list[bytes]], bool]) -> list[bytes]:
    for number in range(len(parts) - 1, -1, -1):
        kept = parts[:number] + parts[number + 1 :]
        if kept and fails(kept):
            parts = kept
    return parts
