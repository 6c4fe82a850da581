"""The way to each state that an exploration has seen, for the trace of a finding."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Ways(Generic[Key]):
    """States by key, each with the state before it and the step between them. Breadth first, the ways are shortest."""

    def __init__(self, first: Key) -> None:
        self._before: dict[Key, tuple[Key, str] | None] = {first: None}

    def __len__(self) -> int:
        return len(self._before)

    def add(self, key: Key, before: Key, step: str) -> bool:
        """Record a step. Return False if the state is known already."""
        if key in self._before:
            return False
        self._before[key] = before, step
        return True

    def trace(self, key: Key) -> tuple[str, ...]:
        """Return the steps from the first state to a known one."""
        found: list[str] = []
        while (way := self._before[key]) is not None:
            key, step = way
            found.append(step)
        return tuple(reversed(found))
