"""Offset stores of consumers: at the brokers for a group that shares queues, in a file for broadcasting.

Like RocketMQ's RemoteBrokerOffsetStore and LocalFileOffsetStore. The file has Java's format and path, so that a Java
consumer with the same client id and group can resume from it. Progress is cached in memory and written every
`persist_interval` seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from bolide.client.consuming.custom_offsets import CustomOffsets, OffsetStore
from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.protocol_json import json_body, queue_map, queue_map_text
from bolide.client.messages.arguments import check_method
from bolide.client.messages.errors import ResponseError, response_error
from bolide.client.messages.queue import MessageQueue
from bolide.errors import ArgumentError, BolideError, ConfigError
from bolide.remoting import codes
from bolide.world.contract import World
from bolide.world.home import expanded
from bolide.world.real import THE_WORLD

log = logging.getLogger("bolide.client")

Table = tuple[str, str]
"""Topic and broker: a broker has one table of a group's offsets for each topic."""

PULL_READ: Final = 0.25
"""Seconds until a broker is assumed to have read a pull and stored its progress."""


class GroupOffsets(Protocol):
    """Interface of offset stores. Each offset is the offset of the next message to consume."""

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Set the progress in memory."""

    def get(self, queue: MessageQueue) -> int:
        """Return the progress in memory, or -1 if it is not set."""

    def forget(self, queue: MessageQueue) -> None:
        """Remove a queue that is no longer held."""

    def carry(self, queue: MessageQueue) -> int:
        """Return the progress to send with a pull, or -1. Call `carried` after the response."""

    def carried(self, queue: MessageQueue) -> None:
        """Called when the pull that carried the progress has a response, so its broker has stored it."""

    async def load(self, queue: MessageQueue) -> int:
        """Return the stored progress, or -1 if it is not stored. Raises if the store cannot be read."""

    async def persist(self, queues: Iterable[MessageQueue], wait: bool) -> None:
        """Write the progress of these queues; with `wait`, wait for confirmations. Failures are logged."""


def group_offsets(
    instance: ClientInstance, group: str, *, broadcasting: bool, folder: Path | None, store: OffsetStore | None
) -> GroupOffsets:
    """Return the store for a consumer's offsets: the user's store, a file, or the brokers."""
    if store is not None:
        return CustomOffsets(store, group)
    return (
        FileOffsets(instance.client_id, group, folder, instance.world)
        if broadcasting
        else BrokerOffsets(instance, group)
    )


def check_offset_store(store: OffsetStore | None, folder: Path | None) -> OffsetStore | None:
    """Check a user's store. Raises `ArgumentError` if methods are missing, or if `folder` is also given."""
    if store is None:
        return None
    check_method("offset_store", store, "load", "group, queue")
    check_method("offset_store", store, "save", "group, offsets")
    if folder is not None:
        raise ArgumentError("offset_store and offset_folder are both given, give one of them", "offset_store")
    return store


class BrokerOffsets:
    """Progress that each queue's broker stores (UPDATE_CONSUMER_OFFSET, QUERY_CONSUMER_OFFSET).

    A Java broker creates the table of a group and topic at the first commit, without a lock. If two first commits
    arrive together, one may be lost although both get a response. So the first commit to a broker for a topic is sent
    alone, and the other commits follow together after its response.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._offsets: dict[MessageQueue, int] = {}
        self._written: dict[MessageQueue, tuple[str, int]] = {}
        """Confirmed offset, and the address that confirmed it: a returning master may lack commits that its replica
        stored."""
        self._carried: dict[MessageQueue, tuple[int, float]] = {}
        self._tables: set[Table] = set()
        self._making: dict[Table, asyncio.Lock] = {}
        self._in_vain: dict[Table, int] = {}
        """Number of first commits without a response."""

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Set the progress in memory."""
        self._offsets[queue] = offset

    def get(self, queue: MessageQueue) -> int:
        """Return the progress in memory, or -1 if it is not set."""
        return self._offsets.get(queue, -1)

    def forget(self, queue: MessageQueue) -> None:
        """Remove a queue that is no longer held."""
        self._offsets.pop(queue, None)
        self._written.pop(queue, None)
        self._carried.pop(queue, None)

    def carry(self, queue: MessageQueue) -> int:
        """Return the progress to send with a pull, so that the broker needs no separate request for it.

        Returns -1 before the first commit, because pulls of several queues are in flight at the same time.
        """
        offset = self.get(queue) if _table(queue) in self._tables else -1
        self._carried[queue] = (offset, asyncio.get_running_loop().time())
        return offset

    def carried(self, queue: MessageQueue) -> None:
        """Called when the pull has a response: its progress can no longer overtake a later commit."""
        self._carried.pop(queue, None)

    def _ext(self, queue: MessageQueue) -> dict[str, str]:
        return {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "bname": queue.broker_name,
        }

    async def load(self, queue: MessageQueue) -> int:
        """Return the stored progress, or -1 if it is not stored. Raises `BolideError` if the broker cannot be
        queried."""
        address = self._instance.any_address(queue.broker_name)
        if address is None:
            raise response_error(codes.TOPIC_NOT_EXIST, "its address is not known", f"for {queue}", queue.broker_name)
        answer = await self._instance.call(
            address,
            codes.QUERY_CONSUMER_OFFSET,
            self._ext(queue),
            timeout=5.0,
            accept=(codes.SUCCESS, codes.QUERY_NOT_FOUND),
        )
        offset = int(answer.ext()["offset"]) if answer.code == codes.SUCCESS else -1
        if offset > 0:  # a broker may also return 0 if it has stored no offset
            self._tables.add(_table(queue))
        return offset

    async def persist(self, queues: Iterable[MessageQueue], wait: bool) -> None:
        """Send changed progress to the broker of each queue. Failures are logged."""
        changed: dict[Table, dict[MessageQueue, int]] = {}
        for queue in queues:
            offset = self._offsets.get(queue, -1)
            address = self._instance.any_address(queue.broker_name) or ""
            if offset >= 0 and self._written.get(queue) != (address, offset):
                changed.setdefault(_table(queue), {})[queue] = offset
        await asyncio.gather(*(self._persist_table(table, offsets, wait) for table, offsets in changed.items()))

    async def _persist_table(self, table: Table, offsets: dict[MessageQueue, int], wait: bool) -> None:
        if table not in self._tables:
            in_vain = self._in_vain.get(table, 0)
            async with self._making.setdefault(table, asyncio.Lock()):
                for queue in list(offsets):
                    if table in self._tables or self._in_vain.get(table, 0) != in_vain:
                        break
                    if not await self._write_for_certain(queue, offsets.pop(queue)):
                        # The broker is unreachable: do not let the other queues wait for it one after the other.
                        self._in_vain[table] = self._in_vain.get(table, 0) + 1
        await asyncio.gather(
            *(
                self._write_for_certain(queue, offset) if wait else self._write(queue, offset, wait)
                for queue, offset in offsets.items()
            )
        )

    async def _write_for_certain(self, queue: MessageQueue, offset: int) -> bool:
        """Write an offset and verify that no older progress replaces it. Return whether the broker has responded.

        A broker processes pulls and commits in separate threads. So it can store the progress of a pull after a later
        commit, and the next consumer of the queue would start there. The response to the pull may be delayed, because
        the pull may be held. So wait until the broker must have read it, and then check the stored offset.
        """
        before, sent = self._carried.get(queue, (-1, 0.0))
        unread = sent + PULL_READ - asyncio.get_running_loop().time()
        answered = await self._write(queue, offset, wait=True)
        if before in (-1, offset) or unread <= 0:
            return answered
        await asyncio.sleep(unread)
        try:
            if await self.load(queue) == before:
                await self._write(queue, offset, wait=True)
        except BolideError as error:
            log.warning("offset %d of %s may be stored as %d: %s", offset, queue, before, error)
        return answered

    async def _write(self, queue: MessageQueue, offset: int, wait: bool) -> bool:
        """Send one commit. Return whether the broker has responded."""
        address = self._instance.any_address(queue.broker_name)
        if address is None:
            log.warning("offset %d of %s is not stored: no address of its broker is known", offset, queue)
            return False
        ext = {**self._ext(queue), "commitOffset": str(offset)}
        try:
            if wait:
                await self._instance.call(address, codes.UPDATE_CONSUMER_OFFSET, ext)
            else:
                await self._instance.oneway(address, codes.UPDATE_CONSUMER_OFFSET, ext)
        except BolideError as error:
            log.warning("offset %d of %s is not stored: %s", offset, queue, error)
            if isinstance(error, ResponseError):
                return True
            self._tables.discard(_table(queue))  # a restarting broker may have lost it
            return False
        if wait:
            self._written[queue] = (address, offset)
            self._tables.add(_table(queue))
        else:  # it may be lost, so the next `persist` must repeat the write
            self._written.pop(queue, None)
        return wait


def _table(queue: MessageQueue) -> Table:
    return queue.topic, queue.broker_name


def _default_folder() -> Path | None:
    """Return Java's folder, or None for a user without a home folder, as in a container."""
    try:
        return expanded("~/.rocketmq_offsets")
    except ConfigError:
        return None


class FileOffsets:
    """Progress in ``<folder>/<client id>/<group>/offsets.json`` of this machine, for broadcasting."""

    def __init__(self, client_id: str, group: str, folder: Path | None = None, world: World = THE_WORLD) -> None:
        folder = folder or _default_folder()
        self.path = folder and folder / client_id / group / "offsets.json"
        if self.path is None:
            log.warning(
                "offsets of group %s are not stored, because this user has no home folder: set HOME or offset_folder",
                group,
            )
        self._offsets: dict[MessageQueue, int] = {}
        self._stored: dict[MessageQueue, int] | None = None
        self._files = world.files
        self._in_thread = world.in_thread
        self._lock = asyncio.Lock()

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Set the progress in memory."""
        self._offsets[queue] = offset

    def get(self, queue: MessageQueue) -> int:
        """Return the progress in memory, or -1 if it is not set."""
        return self._offsets.get(queue, -1)

    def forget(self, queue: MessageQueue) -> None:
        """Remove a queue that is no longer held; the file keeps it."""
        self._offsets.pop(queue, None)

    def carry(self, queue: MessageQueue) -> int:
        """Return -1: brokers do not store offsets of broadcasting consumers."""
        return -1

    def carried(self, queue: MessageQueue) -> None:
        """Do nothing."""

    async def load(self, queue: MessageQueue) -> int:
        """Return the progress in the file, or in its backup if the file is torn, or -1 if it is not stored."""
        if self._stored is None:
            self._stored = await self._in_thread(self._read)
        return self._stored.get(queue, -1)

    async def persist(self, queues: Iterable[MessageQueue], wait: bool) -> None:
        """Rewrite the file. Failures are logged."""
        async with self._lock:
            before = self._stored if self._stored is not None else await self._in_thread(self._read)
            changed = {queue: self._offsets[queue] for queue in queues if queue in self._offsets}
            stored = {**before, **changed}
            if stored == before:
                return
            if self.path is None:
                self._stored = stored
                return
            try:
                await self._in_thread(self._save, self.path, stored)
            except (OSError, BolideError) as error:
                log.warning("offsets are not stored in %s: %s", self.path, error)
            else:
                self._stored = stored

    def _read(self) -> dict[MessageQueue, int]:
        for path in (self.path, self.path.with_suffix(".json.bak")) if self.path else ():
            try:
                data = self._files.read_file(str(path))
                if data is None:
                    continue
                if not data:  # a crash may leave an empty file; Java's client also uses the backup then
                    raise ValueError("it is empty")
                table = queue_map(json_body(data).get("offsetTable"))
                return {queue: int(offset) for queue, offset in table.items()}
            except (OSError, ValueError, TypeError, AttributeError, BolideError) as error:
                log.warning("offsets in %s cannot be read: %s", path, error)
        return {}

    def _save(self, path: Path, stored: dict[MessageQueue, int]) -> None:
        self._files.make_dir(str(path.parent))
        self._files.write_file(str(path), b'{"offsetTable":%b}' % queue_map_text(stored))
