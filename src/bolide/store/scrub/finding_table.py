"""The findings of the scrub that still apply."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bolide.store.message_store import MessageStore
from bolide.store.scrub.finding import Damage

MAX_FINDINGS: Final = 1000
"""Maximum number of stored findings. Further ones are only counted."""


class FindingTable:
    """Findings by their place in the log. A later check of a range of the log replaces its findings."""

    def __init__(self, store: MessageStore) -> None:
        self.unlisted = 0
        """Number of findings of this pass beyond the maximum."""
        self._store = store
        self._findings: list[Damage] = []

    def load(self, findings: list[Damage], unlisted: int) -> None:
        """Take over the findings of an earlier run."""
        self._findings = findings
        self.unlisted = unlisted

    def replace(self, start: int, stop: int, found: Iterable[Damage]) -> list[Damage]:
        """Replace the findings of a range of the log by `found`. Return the new findings."""
        known = {one.place for one in self._findings}
        places = {one.place: one for one in found}
        kept = [one for one in self.current() if not start <= one.log_offset < stop and one.place not in places]
        new: list[Damage] = []
        for one in places.values():
            if len(kept) >= MAX_FINDINGS:
                self.unlisted += 1
                continue
            kept.append(one)
            if one.place not in known:
                new.append(one)
        self._findings = kept
        return new

    def current(self) -> list[Damage]:
        """Return the findings in files that still exist. Any thread may call this."""
        findings = self._findings
        if not findings:
            return []
        first = int(self._store.log.segments.min_offset)
        index = {file.path for file in self._store.index.index_files()}
        return [one for one in findings if one.log_offset >= first and self._exists(one, index)]

    def _exists(self, one: Damage, index: set[str]) -> bool:
        store = self._store
        folder, *rest = one.path.split("/")
        if one.log_offset >= store.end_offset:
            return False
        if folder == "index":
            return f"{store.root}/{one.path}" in index
        if folder != "consumequeue":
            return True
        covered = store.queues.deleted.covers(rest[0], one.log_offset)
        return store.queues.get(rest[0], int(rest[1])) is not None and not covered
