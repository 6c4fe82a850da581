"""The etcd of the simulation: it answers what a real one answers, and goes wrong as one does."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from bolide.controller.consensus import StoreUnavailable
from bolide.node.controller.etcd import Etcd, changed_at, created_at, put_op, range_of, read_op
from bolide.node.controller.http_exchange import Endpoint
from proof.simulation.cluster import Cluster, Simulation
from proof.simulation.etcd import PORT, SimulatedEtcd
from proof.simulation.etcd_history import History
from proof.simulation.process import Process
from tests.node.controller.etcds import EtcdMember, started

KEYS = ["/a/1", "/a/2", "/a/22", "/b/1"]
MEMBERS = ["etcd-0", "etcd-1", "etcd-2"]
Said = tuple[int, Any]


class Peers:
    """A real etcd and a simulated one, asked the same. Their revisions and leases differ by where they began."""

    def __init__(self, port: int, chance: random.Random) -> None:
        self.port = port
        self.history = History()
        self.leases: list[tuple[str, str]] = []
        self.revisions: dict[str, str] = {"0": "0"}
        """Of the real one, by those of the simulated."""
        self.chance = chance

    def both(self, path: str, ours: dict[str, Any], theirs: dict[str, Any] | None = None) -> tuple[Said, Said]:
        got = self._real(path, ours if theirs is None else theirs), self.history.answer(path, ours, 0.0)
        for real, simulated in (got,) if got[0][0] == 200 else ():
            header = (
                (real[1].get("result") or real[1])["header"],
                (simulated[1].get("result") or simulated[1])["header"],
            )
            self.revisions[header[1]["revision"]] = header[0]["revision"]
        return got

    def _real(self, path: str, request: dict[str, Any]) -> Said:
        url = f"http://127.0.0.1:{self.port}{path}"
        asked = urllib.request.Request(url, json.dumps(request).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def translated(self, said: Any, lease_names: dict[str, str]) -> Any:
        """A simulated answer with the revisions and leases of the real one."""
        if isinstance(said, list):
            return [self.translated(one, lease_names) for one in said]
        if not isinstance(said, dict):
            return said
        found = {}
        for name, value in said.items():
            if name in ("revision", "create_revision", "mod_revision"):
                found[name] = self.revisions[value]
            elif name in ("ID", "lease"):
                found[name] = lease_names.get(value, value)
            else:
                found[name] = self.translated(value, lease_names)
        return found

    def compare(self, path: str, got: tuple[Said, Said]) -> None:
        names = {simulated: real for real, simulated in self.leases}
        (status, real), (ours, simulated) = got
        assert ours == status, (path, real, simulated)
        assert self.translated(simulated, names) == bare(real), path


def bare(said: Any) -> Any:
    """A real answer without what no controller reads."""
    if isinstance(said, list):
        return [bare(one) for one in said]
    if not isinstance(said, dict):
        return said
    left_out = {"cluster_id", "member_id", "raft_term", "details"}
    return {name: bare(value) for name, value in said.items() if name not in left_out}


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMember]:
    (member,) = started(tmp_path_factory.mktemp("etcd"))
    yield member
    member.kill()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_simulated_etcd_responds_like_etcd(etcd: EtcdMember, seed: int) -> None:
    chance = random.Random(f"etcd {seed}")
    peers = Peers(etcd.port, chance)
    prefix = f"/{seed}"
    grant(peers, 1)
    del peers.leases[:]  # the real one may end while this runs
    for _ in range(400):
        pick = chance.random()
        if pick < 0.1:
            grant(peers, chance.choice((1000, 2000)))
        elif pick < 0.2 and peers.leases:
            real, simulated = chance.choice(peers.leases)
            what = chance.choice(("/v3/lease/keepalive", "/v3/lease/revoke"))
            peers.compare(what, peers.both(what, {"ID": simulated}, {"ID": real}))
        elif pick < 0.4:
            begin, end = sorted((f"{prefix}{chance.choice(KEYS)}", f"{prefix}{chance.choice(KEYS)}"))
            request = range_of(begin.encode(), end.encode(), chance.choice((0, 0, 1, 2)))
            peers.compare("/v3/kv/range", peers.both("/v3/kv/range", request))
        else:
            transaction(peers, prefix)


def grant(peers: Peers, seconds: int) -> None:
    got = peers.both("/v3/lease/grant", {"TTL": str(seconds)})
    peers.leases.append((got[0][1]["ID"], got[1][1]["ID"]))
    peers.compare("/v3/lease/grant", got)


def transaction(peers: Peers, prefix: str) -> None:
    """Conditions that hold about as often as not, and puts and reads in any order, of one revision."""
    chance = peers.chance
    key = f"{prefix}{chance.choice(KEYS)}"
    held = peers.history.keys.get(key.encode())
    revision = chance.choice((0, held.created if held else 0, held.changed if held else 0))
    condition = chance.choice((created_at, changed_at))
    lease = chance.choice([("0", "0"), *peers.leases[-3:]])
    value, reads = b"%d" % chance.randrange(100), [read_op(f"{prefix}/a/"), read_op(f"{prefix}/b")]

    def asked(leased: str, at: int) -> dict[str, Any]:
        puts = [put_op(key, value, int(leased))]
        success = [reads[0], *puts, reads[1]] if at_end else [*puts, *reads]
        return {"compare": [condition(key, at)], "success": success, "failure": reads[:1]}

    at_end = chance.random() < 0.5
    real = int(peers.revisions[str(revision)])
    peers.compare("/v3/kv/txn", peers.both("/v3/kv/txn", asked(lease[1], revision), asked(lease[0], real)))


# -- members


def asks(cluster: Cluster, seconds: float = 1.25) -> tuple[Process, Etcd]:
    """A machine with a client."""

    async def main(process: Process) -> None:
        await asyncio.Event().wait()

    process = cluster.start("asker", main)
    return process, Etcd(process.world, [Endpoint(cluster.machine(name).ip, PORT) for name in MEMBERS], seconds)


def simulated(scenario: Any, seed: int = 1) -> None:
    async def begun(cluster: Cluster) -> None:
        etcd = SimulatedEtcd(cluster, MEMBERS)
        for name in MEMBERS:
            await etcd.start(name)
        watching = cluster._control.loop.create_task(etcd.watch())
        await cluster.until(lambda: etcd.leader, "a leader")
        await scenario(cluster, etcd)
        watching.cancel()

    Simulation(seed).run(begun)


def test_a_majority_answers_and_a_minority_does_not() -> None:
    async def scenario(cluster: Cluster, etcd: SimulatedEtcd) -> None:
        process, client = asks(cluster)
        done = await cluster.call(process, lambda: client.txn([], [put_op("/k", b"1")]))
        assert done.succeeded
        cluster.kill(etcd.leader)
        left = [name for name in MEMBERS if cluster.processes[name].alive]
        await cluster.until(lambda: etcd.leader in left, "another leads")
        read = await cluster.call(process, lambda: client.read("/k"))
        assert [entry.value for entry in read] == [b"1"]
        cluster.pause(left[0])
        with pytest.raises(StoreUnavailable):
            await cluster.call(process, lambda: client.read("/k"))
        cluster.resume(left[0])
        await cluster.until(lambda: etcd._has_majority(etcd.leader), "a majority")
        assert await cluster.call(process, lambda: client.read("/k"))

    simulated(scenario)


def test_a_question_may_take_effect_after_its_asker_gave_up() -> None:
    late: list[bool] = []

    async def scenario(cluster: Cluster, etcd: SimulatedEtcd) -> None:
        process, client = asks(cluster)
        for name in MEMBERS[1:]:
            cluster.partition(MEMBERS[0], name)
        cluster.partition(MEMBERS[1], MEMBERS[2])
        with pytest.raises(StoreUnavailable):
            await cluster.call(process, lambda: client.txn([], [put_op("/k", b"1")]))
        await cluster.sleep(20.0)
        cluster.heal()
        await cluster.until(lambda: etcd._may(MEMBERS[0]), "a majority")
        await cluster.sleep(1.0)
        late.append(bool(await cluster.call(process, lambda: client.read("/k"))))

    for seed in range(12):
        simulated(scenario, seed)
    assert set(late) == {False, True}


def test_leases_end_when_nobody_renews_them_and_begin_again_with_another_leader() -> None:
    async def scenario(cluster: Cluster, etcd: SimulatedEtcd) -> None:
        process, client = asks(cluster)
        lease = await cluster.call(process, lambda: client.grant(5))
        await cluster.call(process, lambda: client.txn([], [put_op("/k", b"1", lease)]))
        for _ in range(4):
            await cluster.sleep(4.0)
            assert await cluster.call(process, lambda: client.keep_alive(lease)) == 5
        await cluster.sleep(4.0)
        cluster.kill(etcd.leader)
        await cluster.until(lambda: etcd.elections == 2, "another leads")
        await cluster.sleep(3.0)
        assert await cluster.call(process, lambda: client.read("/k"))
        await cluster.sleep(3.0)
        assert not await cluster.call(process, lambda: client.read("/k"))
        assert await cluster.call(process, lambda: client.keep_alive(lease)) == 0

    simulated(scenario)


def test_the_keys_of_the_gateway_are_base64() -> None:
    history = History()
    put = {"request_put": {"key": base64.b64encode(b"k").decode(), "value": base64.b64encode(b"v").decode()}}
    assert history.answer("/v3/kv/txn", {"success": [put]}, 0.0)[1]["succeeded"]
    assert history.keys[b"k"].value == b"v"
