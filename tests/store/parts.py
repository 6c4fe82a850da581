"""Parts of a store over a temporary folder: a log with records in it, queues, index, and files that can be cold."""

from __future__ import annotations

from pathlib import Path

from bolide.dispatch.row import Dispatch
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.properties import format_properties
from bolide.layout.shape import StoreShape
from bolide.store.background.reput import Reput
from bolide.store.disk.files import Files, RealFiles
from bolide.store.disk.segments import HandleCache
from bolide.store.index.index_service import IndexService
from bolide.store.log.commit_log import CommitLog
from bolide.store.options import StoreOptions
from bolide.store.queues.consume_queues import ConsumeQueues
from proof.kit.small import TINY, shape_of
from tests.layout.records import message_of

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
SHAPE = shape_of(TINY, mapped_file_size_consume_queue_ext=256, max_index_num=20)
FROM_FILES = StoreOptions(tail_cache_bytes=0)


class OwnFiles(RealFiles):
    """Real files that close with this object: tests leave their stores as a crash leaves them."""

    def __del__(self) -> None:
        for handle in list(self._paths):
            self.close(handle)


class ColdFiles(OwnFiles):
    """Real files of which nothing is in memory until it was warmed."""

    def __init__(self) -> None:
        super().__init__()
        self.cold = False
        self.warmed: set[tuple[str, int]] = set()

    def read_warm(self, handle: int, size: int, offset: int) -> bytes | None:
        path = self._paths[handle]
        if self.cold and any((path, at) not in self.warmed for at in range(offset, offset + size)):
            return None
        return super().read_warm(handle, size, offset)

    def view_warm(self, handle: int, size: int, offset: int) -> memoryview | None:
        if self.read_warm(handle, size, offset) is None:
            return None
        return super().view_warm(handle, size, offset)

    def warm(self, path: str, offset: int, size: int) -> None:
        self.warmed.update((path, at) for at in range(offset, offset + size))


class TracedFiles(OwnFiles):
    """Real files that remember the very objects they gave out."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[bytes] = []

    def read_warm(self, handle: int, size: int, offset: int) -> bytes | None:
        data = super().read_warm(handle, size, offset)
        if data is not None:
            self.given.append(data)
        return data

    def view_warm(self, handle: int, size: int, offset: int) -> memoryview | None:
        return None  # all that is given out comes from `read_warm`

    def source(self, data: bytes | memoryview) -> bytes:
        """The object given out of which `data` is a view, or which it is; fails for a copy."""
        found = data.obj if isinstance(data, memoryview) else data
        return next(given for given in self.given if given is found)


def put_of(
    topic: str,
    queue_id: int,
    body: bytes,
    tags: str = "",
    keys: str = "",
    uniq_key: str = "",
    sys_flag: int = 0,
    **more: str,
) -> BrokerMessage:
    """A message; `more` are user properties."""
    properties = {"TAGS": tags, "KEYS": keys, "UNIQ_KEY": uniq_key, **more}
    text = format_properties({name: value for name, value in properties.items() if value})
    return message_of(topic, body, text.encode(), queue_id, sys_flag=sys_flag)


class Parts:
    """Log, queues, index and dispatch over one folder. What is read comes from files, unless the options say else."""

    def __init__(
        self, root: Path, shape: StoreShape = SHAPE, options: StoreOptions | None = None, files: Files | None = None
    ) -> None:
        self.files = files if files is not None else OwnFiles()
        self.root = root
        self.shape = shape
        self.handles = HandleCache(self.files, 8)
        self.log = CommitLog(self.files, f"{root}/commitlog", shape, options or FROM_FILES, self.handles)
        self.queues = ConsumeQueues(self.files, str(root), shape, self.handles)
        self.index = IndexService(self.files, str(root), shape, self.handles)
        self.reput = Reput(self.log, self.queues, self.index, shape)
        self.next: dict[tuple[str, int], int] = {}

    def append(self, put: BrokerMessage, now: int = 1000, offer: bool = True) -> Dispatch:
        """Append a message and write it; offered to dispatch unless told otherwise."""
        before = self.log.end_offset
        self.log.make_room(self.log.check(put))
        if offer and self.log.end_offset != before:
            self.reput.next_file(before, self.log.end_offset)
        key = put.topic, put.queue_id
        d = self.log.append(put, self.next.get(key, 0), now)
        self.next[key] = self.next.get(key, 0) + 1
        self.log.write_pending()
        if offer:
            self.reput.offer(d)
        return d

    def dispatch(self, now: int = 1000) -> list[tuple[str, int, int]]:
        """Dispatch everything written; topic, queue id and max offset of what arrived."""
        arrived = self.reput.run(self.log.written_offset, 1 << 30, now)
        return [(arrival.topic, arrival.queue_id, arrival.max_offset) for arrival in arrived]

    def close(self) -> None:
        """As a clean stop."""
        self.queues.close()
        self.index.close()
        self.handles.close()
