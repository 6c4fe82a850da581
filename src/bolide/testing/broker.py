"""A name server and a broker inside the test's process, on a separate thread: real sockets, real files.

    with Broker() as broker:
        async with Producer("group", broker.namesrv_addr) as producer: ...

They start in a few tens of milliseconds. Files are small, in a temporary folder that is removed at the end.
"""

from __future__ import annotations

import asyncio
import difflib
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Final, TypeVar

from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.topic_config import TopicConfig
from bolide.client.messages.arguments import check_topic
from bolide.client.messages.checked import FROM_ONE, PERMISSION, SECONDS, checked_constructor, checked_methods
from bolide.declaration import settings_of
from bolide.errors import ArgumentError, LocalError
from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.machine.node_world import RealNodeWorld
from bolide.node.namesrv import NamesrvNode
from bolide.testing.stalled import StallableFiles
from bolide.world.clocks import now_ms

T = TypeVar("T")

PATIENCE_S: Final = 300.0
"""Limit in seconds for a start, a stop, and calls on the loop: a machine busy with other tests may need minutes."""
SMALL: Final[dict[str, Any]] = {
    "mapped_file_size_commit_log": 16 * 1024 * 1024,
    "mapped_file_size_consume_queue": 20 * 10_000,
    "max_hash_slot_num": 10_000,
    "max_index_num": 100_000,
    "flush_disk_type": "ASYNC_FLUSH",
    "wait_time_mills_in_send_queue": 60_000,
    "os_page_cache_busy_time_out_mills": 60_000,
}
"""Settings that differ from a broker's defaults: small files, no wait for the disk. Sends are not rejected if the
machine stalls, because it may be busy with other tests."""


@checked_methods
@checked_constructor
class Broker:
    """A context manager. Pass settings as for `BrokerOptions.of` (`auto_create_topic_enable=False`, ...).

    `store` is the folder of the store, so that a second `Broker` finds the messages of the first. The default is a
    temporary folder. Thread-safe; one event loop inside runs both daemons. Raises `ArgumentError` for an unknown
    setting.
    """

    def __init__(self, store: str | None = None, **settings: Any) -> None:
        _check_settings(settings)
        self._own_folder = store is None
        self._folder = store
        self._settings = {**SMALL, **settings}
        self._files = StallableFiles()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._started: Future[None] = Future()
        self._namesrv: NamesrvNode | None = None
        self._broker: BrokerNode | None = None
        self.namesrv_addr = ""
        """`host:port` of the name server, for clients."""
        self.broker_addr = ""
        """`host:port` of the broker."""

    @property
    def store_folder(self) -> str:
        """The folder of the broker's store."""
        if self._folder is None:
            raise LocalError("the broker has no store folder yet: start it first")
        return self._folder

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start both daemons; return when they accept requests and the broker is registered. Raises the error of a
        failed start."""
        if self._thread is not None:
            return
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="bolide-broker-")
        self._started = Future()
        self._thread = threading.Thread(target=self._run, name="bolide-test-broker", daemon=True)
        self._thread.start()
        try:
            wait([self._started], PATIENCE_S)
            if not self._started.done():
                raise LocalError(f"the broker did not start within {PATIENCE_S:g} s: see what keeps the machine busy")
            self._started.result()
        except BaseException:
            self.stop()
            raise

    def stop(self, timeout: Annotated[float, SECONDS] = PATIENCE_S) -> None:
        """Stop both daemons and remove the temporary folder. A second call does nothing.

        Raises `LocalError` if they do not stop within `timeout` seconds. Then the folder is not removed, because they
        may still write.
        """
        self._files.go_on()
        thread, loop = self._thread, self._loop
        if thread is None:
            return
        if loop is not None:
            with suppress(RuntimeError):  # the start failed, and its loop is already closed
                loop.call_soon_threadsafe(self._end.set)
        thread.join(timeout)
        if thread.is_alive():
            raise LocalError(f"the broker did not stop within {timeout:g} s: its store is left in {self._folder}")
        self._thread = self._loop = None
        self._remove()

    def create_topic(
        self,
        topic: str,
        queues: Annotated[int, FROM_ONE] = 4,
        perm: Annotated[int, PERMISSION] = 6,
        order: bool = False,
    ) -> None:
        """Create a topic, and return once the name server has it. Raises `ArgumentError`."""
        check_topic(topic)
        self._call(self._create_topic(TopicConfig(topic, queues, queues, perm, order=order)))

    @contextmanager
    def stalled_disk(self) -> Iterator[None]:
        """Stall the disk inside the block: sends wait for it, and the broker rejects further sends as busy.

        Use it with `flush_disk_type="SYNC_FLUSH"`: otherwise the broker does not notice the stall for a long time.
        After the block, the pending sends get their responses, and sends are accepted again.
        """
        self._files.stall()
        try:
            yield
        finally:
            self._files.go_on()
            if self._thread is not None:
                self._call(self._nothing_waits())

    def topics(self) -> list[str]:
        """Return the names of all topics, including system topics."""
        return self._call(self._names())

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's loop and wait for it."""
        if self._loop is None or self._thread is None:
            coroutine.close()
            raise LocalError("the broker is not running: start it first")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_S)

    async def _create_topic(self, config: TopicConfig) -> None:
        assert self._broker is not None and self._namesrv is not None
        self._broker.parts.topics.put(config, now_ms())
        self._broker.another_turn()
        async with asyncio.timeout(PATIENCE_S):
            while not self._namesrv.knows_topic(config.topic_name):
                await asyncio.sleep(0.005)

    async def _nothing_waits(self) -> None:
        assert self._broker is not None
        async with asyncio.timeout(PATIENCE_S):
            while self._broker.waiting_sends:
                await asyncio.sleep(0.005)

    async def _names(self) -> list[str]:
        assert self._broker is not None
        return sorted(self._broker.parts.topics.table)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        folder = self.store_folder
        try:
            # Clients use TLS with both daemons or with neither.
            shared = NamesrvOptions.__struct_fields__
            tls = {name: self._settings[name] for name in shared if name.startswith("tls_") and name in self._settings}
            self._namesrv = namesrv = NamesrvNode(
                NamesrvOptions(listen_port=0, kv_config_path=f"{folder}/namesrv/kvConfig.json", **tls)
            )
            await namesrv.start()
            self.namesrv_addr = namesrv.address
            options = BrokerOptions.of(
                store_path_root_dir=folder,
                **{"listen_port": 0, "namesrv_addr": namesrv.address, **self._settings},
            )
            self._broker = broker = BrokerNode(options, world=RealNodeWorld(self._files))
            try:
                await broker.start()
                if (
                    options.registration.namesrv_addr == namesrv.address
                    and not options.controlled.enable_controller_mode
                ):
                    # A broker waits 3 s for its registration, and then starts without it.
                    async with asyncio.timeout(PATIENCE_S):
                        while not any(map(namesrv.knows_topic, broker.parts.topics.table)):
                            await asyncio.sleep(0.005)
                # Reserve the blocks of the log now. The first message would do so on the loop, which takes long on a
                # busy disk, and tests have short timeouts for their first message.
                broker.store.log.segments.create_at(broker.store.end_offset)
            except BaseException:
                await broker.stop()
                await namesrv.stop()
                raise
            self.broker_addr = broker.address
        except BaseException as error:
            self._started.set_exception(error)
            return
        self._started.set_result(None)
        await self._end.wait()
        await broker.stop()
        await namesrv.stop()

    def _remove(self) -> None:
        if self._own_folder and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _check_settings(settings: Iterable[str]) -> None:
    known = [setting.name for setting in settings_of(BrokerOptions).values()]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else "docs/settings.md lists them"
            raise ArgumentError(f"{name} is not a setting of the broker: {hint}", name)
