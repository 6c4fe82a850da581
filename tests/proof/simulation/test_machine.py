"""What the simulated machines, processes, threads and connections do, without a broker."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from proof.simulation.cluster import Cluster, NotInTime, Simulation
from proof.simulation.escapes import Escape
from proof.simulation.process import Process
from proof.simulation.threads import Gone

PORT = 7000
Scenario = Callable[[Cluster], Coroutine[Any, Any, object]]


class Peer(asyncio.Protocol):
    """One end of a connection, with everything that it was told."""

    def __init__(self, reads: bool = True, echoes: bool = False) -> None:
        self.got = b""
        self.pieces = 0
        self.lost: list[BaseException | None] = []
        self.paused = False
        self.transport: Any = None
        self._reads = reads
        self._echoes = echoes

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if not self._reads:
            transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self.got += data
        self.pieces += 1
        if self._echoes:
            self.transport.write(data)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False

    def connection_lost(self, error: BaseException | None) -> None:
        self.lost.append(error)


def server(peers: list[Peer], reads: bool = True, echoes: bool = True) -> Any:
    """A process that accepts connections for as long as it lives."""

    def accepted() -> Peer:
        peers.append(Peer(reads, echoes))
        return peers[-1]

    async def main(process: Process) -> None:
        await process.world.bind("", PORT).serve(accepted)
        await asyncio.get_running_loop().create_future()

    return main


def client(peer: Peer, host: str = "server", errors: list[BaseException] | None = None) -> Any:
    """A process that connects and then lives on."""

    async def main(process: Process) -> None:
        try:
            await process.world.connect(lambda: peer, process.world.resolve(host), PORT, None)
        except OSError as error:
            assert errors is not None
            errors.append(error)
        await asyncio.get_running_loop().create_future()

    return main


def simulate(scenario: Scenario, seed: int = 1) -> Cluster:
    result = Simulation(seed).run(scenario)
    assert result.faults == []
    return result.cluster


async def serving(cluster: Cluster, main: Any) -> None:
    """Start the server and wait for its port."""
    process = cluster.start("server", main)
    await cluster.until(lambda: (process.host.ip, PORT) in cluster.network.ports, "the port")


async def connected(cluster: Cluster, reads: bool = True, echoes: bool = True) -> tuple[Peer, list[Peer]]:
    """A client that is connected to a server."""
    near, far = Peer(), list[Peer]()
    await serving(cluster, server(far, reads, echoes))
    cluster.start("client", client(near))
    await cluster.until(lambda: far and near.transport is not None, "the connection")
    return near, far


def write(cluster: Cluster, near: Peer, data: bytes) -> None:
    cluster.processes["client"].loop.call_soon_threadsafe(near.transport.write, data)


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_whole_and_in_order_in_pieces_of_any_size(seed: int) -> None:
    sent = b"".join(b"%d," % number for number in range(20_000))

    async def scenario(cluster: Cluster) -> None:
        near, far = await connected(cluster)
        cluster.network.link(cluster.hosts["client"].ip, cluster.hosts["server"].ip).split = 1.0
        for at in range(0, len(sent), 1000):
            write(cluster, near, sent[at : at + 1000])
        await cluster.until(lambda: len(near.got) == len(sent), "the echo")
        assert near.got == far[0].got == sent
        assert far[0].pieces > 1

    simulate(scenario, seed)


def test_a_peer_that_reads_nothing_stops_its_sender() -> None:
    async def scenario(cluster: Cluster) -> None:
        near, far = await connected(cluster, reads=False)
        write(cluster, near, bytes(1 << 20))
        await cluster.until(lambda: near.paused, "the sender is told")
        assert near.transport.get_write_buffer_size() > 1 << 19
        assert far[0].got == b""
        cluster.processes["server"].loop.call_soon_threadsafe(far[0].transport.resume_reading)
        await cluster.until(lambda: len(far[0].got) == 1 << 20, "everything arrives")
        await cluster.until(lambda: not near.paused, "the sender may write again")

    simulate(scenario)


def test_the_kernel_of_a_killed_process_tells_its_peers() -> None:
    async def scenario(cluster: Cluster) -> None:
        near, _ = await connected(cluster)
        cluster.kill("server")
        await cluster.until(lambda: near.lost == [None], "the end of the connection", 1)
        errors: list[BaseException] = []
        cluster.kill("client")
        cluster.start("client", client(Peer(), errors=errors))
        await cluster.until(lambda: errors, "the port is closed", 1)
        assert isinstance(errors[0], ConnectionRefusedError)

    simulate(scenario)


def test_a_machine_without_power_tells_nobody() -> None:
    async def scenario(cluster: Cluster) -> None:
        near, _ = await connected(cluster)
        cluster.power_cut("server")
        write(cluster, near, b"anybody?")
        with pytest.raises(NotInTime):
            await cluster.until(lambda: near.lost, "silence", 30)
        cluster.start("server", server([]))
        await cluster.until(lambda: near.lost, "the answer to what is sent again", 100)
        assert isinstance(near.lost[0], ConnectionResetError)

    simulate(scenario)


def test_a_partition_holds_back_one_direction_until_it_is_healed() -> None:
    async def scenario(cluster: Cluster) -> None:
        near, far = await connected(cluster)
        cluster.partition("server", "client", one_way=True)
        write(cluster, near, b"one way")
        await cluster.until(lambda: far[0].got == b"one way", "it arrives")
        with pytest.raises(NotInTime):
            await cluster.until(lambda: near.got, "no echo", 10)
        cluster.heal()
        await cluster.until(lambda: near.got == b"one way", "the echo", 30)
        assert near.lost == []

    simulate(scenario)


def test_unacknowledged_data_ends_the_connection_after_15_minutes() -> None:
    async def scenario(cluster: Cluster) -> None:
        near, far = await connected(cluster)
        cluster.black_hole("client", "server")
        write(cluster, near, b"?")
        await cluster.until(lambda: near.lost, "the kernel gives up", 1000)
        assert isinstance(near.lost[0], TimeoutError)
        assert far[0].got == b"" and far[0].lost == []

    simulate(scenario)


def test_a_connection_over_a_partition_is_tried_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        near, far, errors = Peer(), list[Peer](), list[BaseException]()
        cluster.start("server", server(far))
        cluster.machine("client")
        cluster.partition("client", "server")
        cluster.start("client", client(near, errors=errors))
        await cluster.sleep(5)
        assert near.transport is None and not errors
        cluster.heal()
        await cluster.until(lambda: near.transport is not None, "the next SYN", 5)

    simulate(scenario)


def test_a_paused_process_is_connected_to_and_runs_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        near, far = Peer(), list[Peer]()
        process = cluster.start("server", server(far))
        await cluster.sleep(1)
        cluster.pause("server")
        turns = process.loop.turns
        cluster.start("client", client(near))
        await cluster.until(lambda: near.transport is not None, "the backlog takes the connection")
        write(cluster, near, b"hello")
        await cluster.sleep(60)
        assert process.loop.turns == turns and far == [] and near.got == b""
        cluster.resume("server")
        await cluster.until(lambda: near.got == b"hello", "the echo", 1)

    simulate(scenario)


def test_the_wall_clock_is_set_and_the_other_clock_is_not() -> None:
    async def scenario(cluster: Cluster) -> None:
        async def main(process: Process) -> tuple[int, float]:
            world = process.world
            wall, steady = world.wall_ms(), world.monotonic()
            cluster.jump_clock("one", -3600)
            return world.wall_ms() - wall, world.monotonic() - steady

        value = await cluster.ended(cluster.start("one", main))
        assert isinstance(value, tuple)
        assert value[0] == pytest.approx(-3_600_000, abs=2) and 0 < value[1] < 0.01

    simulate(scenario)


async def _write_ten(process: Process) -> None:
    files = process.world.files
    files.make_dir("/d")
    handle = files.open("/d/f", True)
    for number in range(10):
        files.write_at(handle, [b"%d" % number], number)
    files.datasync(handle)


@pytest.mark.parametrize(("power", "kept"), [(False, b"0123"), (True, b"")])
def test_a_process_ends_in_a_call_to_its_disk(power: bool, kept: bytes) -> None:
    async def scenario(cluster: Cluster) -> None:
        async def main(process: Process) -> None:
            try:
                await process.world.in_thread(lambda: None)
                await _write_ten(process)
            finally:
                with pytest.raises(Gone):  # whatever it does on its way out meets a world that is gone
                    process.world.wall_ms()

        process = cluster.start("one", main)
        disk = cluster.disks["one"]
        disk.make_dir("/d")
        disk.sync_dir("/")
        disk.open("/d/f", True)
        disk.sync_dir("/d")
        process.die_at_call, process.die_with_power = 7, power
        await cluster.until(lambda: not process.alive, "its end")
        assert process.host.up is not power
        if power:
            found = disk.read_file("/d/f")
            assert found is not None and set(found) <= set(b"0123\0")
        else:
            assert disk.read_file("/d/f") == kept

    simulate(scenario)


@pytest.mark.parametrize("by_calls", [False, True])
def test_jobs_run_as_a_whole_or_call_by_call(by_calls: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        order: list[str] = []

        async def main(process: Process) -> None:
            process.by_calls = by_calls
            process.world.disk_files.pace.slowed = 100

            def job(name: str) -> str:
                for number in range(3):
                    process.world.files.sync_dir("/")
                    order.append(f"{name}{number}")
                return name

            pool = process.world.pool(2, "pool")
            work = [asyncio.get_running_loop().run_in_executor(pool, job, name) for name in "ab"]
            assert await asyncio.gather(*work) == ["a", "b"]
            await process.world.in_thread(pool.shutdown)
            with pytest.raises(RuntimeError):
                pool.submit(job, "c")

        await cluster.ended(cluster.start("one", main))
        one_by_one = [["a0", "a1", "a2", "b0", "b1", "b2"], ["b0", "b1", "b2", "a0", "a1", "a2"]]
        assert sorted(order) == one_by_one[0]
        assert by_calls or order in one_by_one

    for seed in range(3):
        simulate(scenario, seed)


def test_a_worker_runs_its_jobs_in_order_and_stops_after_the_last() -> None:
    async def scenario(cluster: Cluster) -> None:
        for by_calls in (False, True):
            order: list[int] = []

            async def main(process: Process, by_calls: bool = by_calls, order: list[int] = order) -> None:
                process.by_calls = by_calls
                worker = process.world.worker("w")
                for number in range(5):

                    def job(number: int = number) -> None:
                        process.world.files.sync_dir("/")
                        order.append(number)

                    worker.give(job)
                assert await process.world.in_thread(worker.stop)

            await cluster.ended(cluster.start("one", main))
            assert order == [0, 1, 2, 3, 4]

    simulate(scenario)


def test_uncaught_error_is_a_fault_of_the_process() -> None:
    async def scenario(cluster: Cluster) -> None:
        async def main(process: Process) -> None:
            asyncio.get_running_loop().call_soon(lambda: [][0])
            await asyncio.sleep(1)

        await cluster.ended(cluster.start("one", main))

    ((name, _, error),) = Simulation(1).run(scenario).faults
    assert name == "one" and isinstance(error, IndexError)


@pytest.mark.parametrize("by_calls", [False, True])
def test_code_that_reaches_past_its_world_is_stopped(by_calls: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        async def main(process: Process) -> None:
            process.by_calls = by_calls
            for reach in (Path("/etc/hostname").read_text, socket.socket, lambda: subprocess.run(["true"], check=True)):
                with pytest.raises(Escape):
                    reach()
                with pytest.raises(Escape):
                    await process.world.in_thread(reach)

        await cluster.ended(cluster.start("one", main))
        socket.socket().close()  # the scenario itself is outside

    simulate(scenario)


def test_the_work_of_a_callback_is_counted_and_that_of_jobs_is_not() -> None:
    async def scenario(cluster: Cluster) -> str:
        async def main(process: Process) -> None:
            process.world.files.make_dir("/d")
            asyncio.get_running_loop().call_soon(process.world.files.read_file, "/d/x")
            await process.world.in_thread(lambda: [process.world.files.list_dir("/") for _ in range(100)])
            await asyncio.sleep(0)
            handle = process.world.files.open("/d/f", True)
            process.world.files.write_at(handle, [b"12345"], 0)

        process = cluster.start("one", main)
        await cluster.ended(process)
        work = process.work
        return f"{work.calls.count} {work.calls.callback.rpartition('.')[2]} {work.disk_bytes.count}"

    assert Simulation(1).run(scenario).value == "2 main 5"
