"""A query by key: from the index to complete records (RocketMQ's DefaultMessageStore.queryMessage).

Hashes collide, so the result may contain records of other keys: the client checks topic and key again, as in Java.
"""

from __future__ import annotations

from typing import Final

from bolide.store.index.index_service import IndexService
from bolide.store.log.commit_log import CommitLog
from bolide.store.reading.intact import checked_bytes
from bolide.store.reading.search import record_store_time

_PASSES: Final = 3


class QueryResult:
    """Result of a query. Times are ms; `records` are complete records in the order of `offsets`, ascending."""

    def __init__(self, last_update_timestamp: int, last_update_physical_offset: int) -> None:
        self.offsets: list[int] = []
        self.records: list[bytes] = []
        self.last_update_timestamp = last_update_timestamp
        self.last_update_physical_offset = last_update_physical_offset


class KeyQuery:
    """Queries by key over one log and its index."""

    def __init__(self, log: CommitLog, index: IndexService) -> None:
        self._log = log
        self._index = index

    def messages(
        self, topic: str, key: str, max_count: int, *, begin: int, end: int, index_type: str = "", after: int = 0
    ) -> QueryResult:
        """Return records whose key (tags with index type "T") has the hash of `key`, stored within [begin, end] ms. If
        there are too many, return the newest ones.

        Records below the offset `after` are omitted: they belong to a deleted topic of this name. If all results have
        left the log, searches among older entries up to two more times. May block on the disk.
        """
        index = self._index
        result = QueryResult(0, 0)  # as in Java: an empty result contains no times
        for _ in range(_PASSES):
            offsets = index.query(topic, key, max_count, begin, end, index_type, self._store_time)
            if not offsets:
                break
            result.last_update_timestamp = index.last_update_timestamp
            result.last_update_physical_offset = index.last_update_physical_offset
            for offset in offsets:
                data = self._log.record_bytes(offset)
                # A key named twice by one message has two entries.
                if data and offset >= after and (not result.offsets or result.offsets[-1] != offset):
                    result.offsets.append(offset)
                    result.records.append(checked_bytes(data, self._log))
            if result.records:
                break
            oldest = record_store_time(self._log, offsets[0], 1)
            if oldest < begin:
                break
            end = oldest
        return result

    def _store_time(self, physical_offset: int) -> int:
        return record_store_time(self._log, physical_offset, 1)
