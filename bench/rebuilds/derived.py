"""Whether two stores have the same derived files: queues by name, index files by age, byte for byte."""

from collections.abc import Iterator
from pathlib import Path

_CHUNK = 4 * 1024 * 1024


def differences(one: Path, other: Path) -> list[str]:
    """A sentence for each derived file that differs.

    Index files are compared in the order of their age: a broker names one by the time at which it made it. The
    checkpoint is no part of it: it says how far a broker had flushed when it stopped.
    """
    found: list[str] = []
    for folder in ("consumequeue", "consumequeue_ext"):
        mine, theirs = _by_name(one / folder), _by_name(other / folder)
        found += [
            f"{folder}/{name} is only in {one if name in mine else other}"
            for name in sorted(mine.keys() ^ theirs.keys())
        ]
        for name in sorted(mine.keys() & theirs.keys()):
            found += _difference(f"{folder}/{name}", mine[name], theirs[name])
    indexes = [sorted((store / "index").iterdir()) if (store / "index").is_dir() else [] for store in (one, other)]
    if len(indexes[0]) != len(indexes[1]):
        found.append(f"there are {len(indexes[0])} index files in {one} and {len(indexes[1])} in {other}")
    for number, (mine_file, their_file) in enumerate(zip(*indexes, strict=False)):
        found += _difference(f"index file {number}", mine_file, their_file)
    return found


def size_of_derived(store: Path) -> tuple[int, int]:
    """Number and bytes of the files that are compared."""
    files = [
        file for name in ("consumequeue", "consumequeue_ext", "index") for file in (store / name).rglob("*")
        if file.is_file()
    ]  # fmt: skip
    return len(files), sum(file.stat().st_size for file in files)


def _by_name(folder: Path) -> dict[str, Path]:
    return {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}


def _difference(name: str, one: Path, other: Path) -> Iterator[str]:
    if one.stat().st_size != other.stat().st_size:
        yield f"{name} has {one.stat().st_size:,} bytes in one and {other.stat().st_size:,} in the other"
        return
    at = 0
    with one.open("rb") as left, other.open("rb") as right:
        while mine := left.read(_CHUNK):
            theirs = right.read(_CHUNK)
            if mine != theirs:
                first = next(place for place, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1])
                yield f"{name} differs first at byte {at + first:,}"
                return
            at += len(mine)
