"""What disks and careless hands do to a file."""

from __future__ import annotations

from pathlib import Path

KINDS = ("gone", "cut", "flip", "zero", "insert", "shift", "scribble")


def damage(path: Path, kind: str, at: int, size: int) -> str:
    """Damage a file at a byte; returns what was done. `size` is how much, and what a byte becomes."""
    if kind == "gone":
        path.unlink()
        return f"{path.name} removed"
    data = bytearray(path.read_bytes())
    at = min(at, max(len(data) - 1, 0))
    count = 1 + size % 64
    if kind == "cut":
        del data[at:]
        said = f"{path.name} cut at byte {at}"
    elif kind == "flip":
        if data:
            data[at] ^= 1 << size % 8
        said = f"{path.name}: bit {size % 8} of byte {at} flipped"
    elif kind == "zero":
        count = min(1 + size % 700, len(data) - at)
        data[at : at + count] = bytes(count)
        said = f"{path.name}: {count} bytes from {at} zeroed"
    elif kind == "scribble":
        count = min(count, len(data) - at)
        data[at : at + count] = bytes((size * 31 + number * 17) % 256 for number in range(count))
        said = f"{path.name}: {count} bytes from {at} overwritten"
    else:
        whole = len(data)
        data[at:at] = b"x" * count
        if kind == "shift":
            del data[whole:]
        said = f"{path.name}: {count} bytes put in at {at}, {'the size kept' if kind == 'shift' else 'it is longer'}"
    path.write_bytes(bytes(data))
    return said
