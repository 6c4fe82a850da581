"""A start that fails at any point leaves nothing: no port, thread, task, timer, descriptor or lock."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.options.composed import BrokerOptions
from bolide.errors import BolideError, ConfigError
from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.machine.node_world import RealNodeWorld
from bolide.node.namesrv import NamesrvNode
from bolide.node.ports.daemon_port import CannotListen
from bolide.store.disk.files import FileFailed, Files, RealFiles
from bolide.store.errors import StoreDamaged
from proof.kit.ports import reserve_port
from proof.kit.waiting import PATIENCE, until
from tests.node.brokers import broker, options, pull_request, send_request


def threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("bolide-"))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if sys.platform.startswith("linux") else 0


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Faults:
    """Lets the calls of a world pass until the one that is to fail; `calls` counts them."""

    def __init__(self, fails_at: int) -> None:
        self.fails_at = fails_at
        self.calls = 0
        self.failed = ""

    def passes(self, name: str) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            self.failed = name
            raise FileFailed(f"{name} fails") if name.startswith("files.") else OSError(f"{name} fails")


class FaultyFiles:
    """Files, each call of which may be the one that fails. Closing and unlocking always work, as in a kernel."""

    def __init__(self, faults: Faults) -> None:
        self._real = RealFiles()
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._real, name)
        if name in ("close", "unlock", "process_id", "local_time"):
            return call

        def faulty(*arguments: Any, **named: Any) -> Any:
            self._faults.passes(f"files.{name}")
            return call(*arguments, **named)

        return faulty


class FaultyWorld(RealNodeWorld):
    """A world in which one call fails."""

    def __init__(self, faults: Faults) -> None:
        files: Any = FaultyFiles(faults)
        checked: Files = files
        super().__init__(checked)
        self._faults = faults

    def bind(self, host: str, port: int) -> Any:
        self._faults.passes("bind")
        bound, faults = super().bind(host, port), self._faults

        class Port:
            port = bound.port
            close = staticmethod(bound.close)

            async def serve(self, accepted: Callable[[], Any]) -> None:
                faults.passes("serve")
                await bound.serve(accepted)

        return Port()

    def pool(self, threads: int, name: str) -> Any:
        self._faults.passes("pool")
        return super().pool(threads, name)

    def worker(self, name: str) -> Any:
        self._faults.passes("worker")
        return super().worker(name)

    def max_open_files(self) -> int:
        self._faults.passes("max_open_files")
        return super().max_open_files()


async def leaves_nothing(start: Callable[[], Awaitable[None]], expected: type[BaseException]) -> str:
    """Run a start that must fail, and check that nothing of it stays; what it said."""
    before = (threads(), descriptors())
    with pytest.raises(expected) as raised:
        await start()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await until(lambda: (threads(), descriptors()) == before, f"what {raised.value!r} left behind to go")
    return str(raised.value)


async def test_a_broker_whose_start_or_stop_fails_at_any_call_leaves_nothing(tmp_path: Path) -> None:
    first = reserve_port(-2)
    failed = set()
    small = {"mapped_file_size_commit_log": 65536, "mapped_file_size_consume_queue": 2000, "max_index_num": 400}
    model, store = tmp_path / "model", tmp_path / "store"
    async with broker(model, **small) as (_, client):  # a store with a message, a topic and an offset
        assert (await client.request(send_request(), PATIENCE)).code == 0
        assert (await client.request(pull_request(), PATIENCE)).code == 0
    faults = Faults(0)
    while faults.calls >= faults.fails_at:
        faults = Faults(faults.fails_at + 1)
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(model, store)
        settings = options(store, listen_port=first, fast_port_enable="true", **small)
        node = BrokerNode(settings, world=FaultyWorld(faults))
        before = (threads(), descriptors())
        try:
            await node.start()
            await node.stop()
        except (BolideError, OSError):
            failed.add(faults.failed)
        assert not accepts(first) and not accepts(first - 2)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await until(lambda was=before: (threads(), descriptors()) == was, f"what {faults.failed} left to go")
        await node.stop()
        if faults.fails_at % 10 == 0:
            async with broker(store, **small) as (_, client):
                assert (await client.request(pull_request(), PATIENCE)).code == 0  # the message is still there
    assert {"bind", "serve", "pool", "worker", "max_open_files", "files.lock", "files.read_file"} <= failed


async def test_a_name_server_whose_start_or_stop_fails_at_any_call_leaves_nothing(tmp_path: Path) -> None:
    port = reserve_port()
    failed = set()
    faults = Faults(0)
    while faults.calls >= faults.fails_at:
        faults = Faults(faults.fails_at + 1)
        settings = NamesrvOptions(listen_port=port, kv_config_path=str(tmp_path / "kvConfig.json"))
        node = NamesrvNode(settings, world=FaultyWorld(faults))
        try:
            await node.start()
            await node.stop()
        except (BolideError, OSError):
            failed.add(faults.failed)
        assert not accepts(port)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await node.stop()
    assert {"bind", "serve", "max_open_files", "files.read_file"} <= failed


async def test_a_taken_fast_port_leaves_nothing_and_is_named(tmp_path: Path) -> None:
    port = reserve_port(-2)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port - 2))
        other.listen()
        node = BrokerNode(options(tmp_path, listen_port=port, fast_port_enable="true"))
        said = await leaves_nothing(node.start, CannotListen)
    assert f"cannot listen on 127.0.0.1:{port - 2} (the fast port, listenPort - 2): address already in use" in said
    assert not accepts(port)
    await node.start()  # the same object starts once the port is free
    assert accepts(port) and accepts(port - 2)
    await node.stop()
    assert not accepts(port)


async def test_a_taken_port_names_its_setting(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = int(other.getsockname()[1])
        nodes = (
            BrokerNode(options(tmp_path, listen_port=port)),
            NamesrvNode(NamesrvOptions(listen_port=port, bind_address="127.0.0.1", kv_config_path="kv")),
        )
        for node in nodes:
            said = await leaves_nothing(node.start, CannotListen)
            assert said.startswith(f"cannot listen on 127.0.0.1:{port} (listenPort = {port}): address already in")


def damaged_table(folder: Path) -> dict[str, Any]:
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "topics.json").write_bytes(b"{")
    return {}


def unknown_topic_plugin(folder: Path) -> dict[str, Any]:
    (folder / "config").mkdir(parents=True)
    topic = {"topicName": "T", "attributes": {"bolide.dispatchers": "nobody"}, "perm": 6}
    topic |= {"readQueueNums": 1, "writeQueueNums": 1}
    (folder / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": {"T": topic}}))
    return {}


@pytest.mark.parametrize(
    ("make", "expected", "told"),
    [
        (lambda folder: {"tls_enable": "true", "tls_client_auth_server": True, "tls_client_trust_cert_path": "/none",
                         "namesrv_addr": "127.0.0.1:1"}, ConfigError, "tlsClientTrustCertPath = '/none' is not a file"),
        (lambda folder: {"tls_mode": "enforcing"}, ConfigError, "tlsMode = enforcing needs a certificate"),
        (lambda folder: {"dispatchers": "nobody"}, ConfigError, "nobody"),
        (lambda folder: {"broker_hooks": "nobody"}, ConfigError, "nobody"),
        (damaged_table, StoreDamaged, "topics.json cannot be read"),
        (unknown_topic_plugin, ConfigError, "remove it from config/topics.json"),
    ],
    ids=["trust", "certificate", "dispatcher", "hook", "table", "topic plug-in"],
)  # fmt: skip
async def test_a_broker_that_is_refused_leaves_nothing(
    tmp_path: Path, make: Callable[[Path], dict[str, Any]], expected: type[BaseException], told: str
) -> None:
    settings: BrokerOptions = options(tmp_path, **make(tmp_path))
    node = BrokerNode(settings)
    assert told in await leaves_nothing(node.start, expected)
    assert node.port == 0 or not accepts(node.port)
    await node.stop()


async def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    node = BrokerNode(options(tmp_path, namesrv_addr="127.0.0.1:1"))  # which it waits for
    before = (threads(), descriptors())
    start = asyncio.create_task(node.start())
    await until(lambda: node.port != 0 and accepts(node.port), "the port to serve")
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert not accepts(node.port)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await until(lambda: (threads(), descriptors()) == before, "threads and descriptors to go")
