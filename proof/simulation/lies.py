"""Forged requests to controllers, name servers, brokers and logs."""

from __future__ import annotations

import asyncio
import random
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

from bolide.access.users import Credentials
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.bodies.controller import SyncStateSet
from bolide.remoting.command import Command, encode, make_request
from bolide.remoting.replica_claims import Claims
from bolide.replication.frames import encode_report as plain_report
from bolide.replication.switch_frames import Hello, encode_hello, encode_report
from bolide.transport.client import ClientConnection
from proof.simulation.fake_master import BROKER_PORT, HUGE, FakeMaster, Raw
from proof.simulation.plan import Action
from proof.simulation.process import Process
from proof.simulation.replicas import HA_PORT
from proof.simulation.spied import Spied

CREDENTIALS: Final = Credentials("cluster", "a secret of the cluster")
PORTS: Final = {"controller": 9877, "name server": 9876, "broker": BROKER_PORT, "log": HA_PORT}
CLUSTER: Final = "DefaultCluster"
TIMEOUT_S: Final = 3.0


class Lie:
    """One attempt at one port."""

    def __init__(
        self, spied: Spied, master: FakeMaster, process: Process, action: Action, target: str, chance: random.Random
    ) -> None:
        self.port = action.text("port")
        self.how = action.text("how")
        self.target = target
        self.stolen = 0
        """Bytes of a log that the attacker got."""
        self._says = action.text("says")
        self._lasts = action.seconds("lasts")
        self._spied = spied
        self._master = master
        self._process = process
        self._chance = chance
        self._address = f"{spied.ip(target)}:{PORTS[self.port]}"
        self._victim = spied.brokers[action.number("broker") % len(spied.brokers)]
        self._set = spied.set_of(self._victim)
        self._own = f"{process.host.ip}:{BROKER_PORT}"

    async def tell(self) -> bool | None:
        """Return whether the product rejected it, or None if that is unknown."""
        if self.how == "bytes":
            return await self._bytes()
        if self.port == "log":
            return await self._of_log()
        ways = {"controller": self._controller, "name server": self._names, "broker": self._broker}
        connection = await ClientConnection.connect(self._address, TIMEOUT_S, world=self._process.world)
        try:
            return await ways[self.port](connection)
        finally:
            connection.close()

    async def _ask(self, to: ClientConnection, code: int, ext: Mapping[str, object], body: bytes = b"") -> Command:
        fields = {key: str(value) for key, value in ext.items() if value is not None}
        return await to.request(make_request(code, 0, fields, body), TIMEOUT_S)

    async def _bytes(self) -> bool | None:
        """Garbage, half a frame, a huge frame, or nothing."""
        chance = self._chance
        raw = await self._process.world.connect(Raw, *self._host(), None)
        head = encode(make_request(codes.BROKER_HEARTBEAT, 1, {"brokerName": self._set}))
        raw.send(chance.choice((
            chance.randbytes(chance.randint(1, 300)), head[: chance.randint(1, len(head) - 1)],
            struct.pack(">i", (1 << 31) - 1), struct.pack(">ii", 8, 1 << 24), b"\x00" * 64, b"GET / HTTP/1.1\r\n\r\n",
            struct.pack(">i", -1), encode_hello(Hello(-5)), b"",
        )))  # fmt: skip
        await raw.wait(lambda: False, self._lasts)
        closed = raw.closed
        raw.close()
        return True if closed else None

    def _host(self) -> tuple[str, int]:
        return self._spied.ip(self.target), PORTS[self.port]

    # -- the controller

    async def _controller(self, to: ClientConnection) -> bool | None:
        one = self._spied.set_named(self._set)
        if one is None or not one.replicas:
            return None
        if self.how == "replay":
            return await self._replay(to, one)
        if self.how in ("join", "takeover"):
            return await self._join(to, one)
        code, ext, body = self._forged(one)
        answer = await self._ask(to, code, ext, body)
        return None if answer.code == codes.CONTROLLER_NOT_LEADER else answer.code != codes.SUCCESS

    def _forged(self, one: Any, life: str | None = None) -> tuple[int, dict[str, object], bytes]:
        chance = self._chance
        ids = sorted(one.replicas)
        victim = chance.choice(ids)
        where = one.replicas[victim].address
        token = f"{chance.getrandbits(48)}" if life is None else life
        claims = Claims(token, chance.choice(("", token))).to_ext()
        base: dict[str, object] = {"clusterName": one.cluster, "brokerName": one.name, "brokerId": victim}
        how = self.how if self.how != "replay" else self._says
        if how in ("register", "move"):
            address = where if how == "register" else self._own
            return codes.CONTROLLER_REGISTER_BROKER, {**base, "brokerAddress": address, **claims}, b""
        if how == "heartbeat":
            fields = {"brokerAddr": chance.choice((where, self._own)), "epoch": HUGE, "maxOffset": 1 << 62,
                      "confirmOffset": 1 << 62, "heartbeatTimeoutMills": 1 << 40, "electionPriority": 0}  # fmt: skip
            return codes.BROKER_HEARTBEAT, {**base, **fields, **claims}, b""
        if how == "elect":
            return codes.CONTROLLER_ELECT_MASTER, {**base, "designateElect": "false", **claims}, b""
        if how == "designate":
            return codes.CONTROLLER_ELECT_MASTER, {**base, "designateElect": "true"}, b""
        if how == "apply":
            wanted = chance.choice((-1, 0, victim, 1 << 62, HUGE << 31))
            ext = {**base, "appliedBrokerId": wanted, "registerCheckCode": f"{self._own};1"}
            return codes.CONTROLLER_APPLY_BROKER_ID, ext, b""
        epochs = (one.master_epoch, one.in_sync_epoch) if how == "set" else (HUGE, chance.choice((-1, HUGE)))
        wanted_set = chance.choice(([one.master or victim], [*ids, 77], ids[:1]))
        body = encode_body(SyncStateSet(wanted_set, epochs[1]))
        master = one.master or victim
        ext = {"brokerName": one.name, "masterBrokerId": master, "masterEpoch": epochs[0], **claims}
        return codes.CONTROLLER_ALTER_SYNC_STATE_SET, ext, body

    async def _replay(self, to: ClientConnection, one: Any) -> bool | None:
        """Replay a request that a member signed."""
        victim = self._chance.choice(sorted(one.replicas))
        code, ext, body = self._forged(one, one.replicas[one.master or victim].life)
        if self._says in ("register", "heartbeat", "elect"):
            replica = one.replicas[int(str(ext["brokerId"]))]
            ext |= {**Claims(replica.life, replica.life).to_ext()}
            if self._says == "heartbeat":
                ext |= {"brokerAddr": replica.address, "epoch": one.master_epoch, "maxOffset": 0, "confirmOffset": 0,
                        "heartbeatTimeoutMills": 10_000}  # fmt: skip
        await asyncio.sleep(self._lasts)
        fields = {key: str(value) for key, value in ext.items() if value is not None}
        answer = await to.request(CREDENTIALS.sign(make_request(code, 0, fields, body)), TIMEOUT_S)
        return None if answer.code == codes.CONTROLLER_NOT_LEADER else answer.code != codes.SUCCESS

    async def _join(self, to: ClientConnection, one: Any) -> bool | None:
        """Join the set as a new replica; for a takeover, also remove the others and become the master."""
        base: dict[str, object] = {"clusterName": one.cluster, "brokerName": one.name}
        wanted = one.next_id
        applied = {**base, "appliedBrokerId": wanted, "registerCheckCode": f"{self._own};1"}
        answer = await self._ask(to, codes.CONTROLLER_APPLY_BROKER_ID, applied)
        if answer.code != codes.SUCCESS:
            return None if answer.code == codes.CONTROLLER_NOT_LEADER else True
        mine = {**base, "brokerId": wanted}
        await self._ask(to, codes.CONTROLLER_REGISTER_BROKER, {**mine, "brokerAddress": self._own})
        beat = {**mine, "brokerAddr": self._own, "epoch": HUGE, "maxOffset": 1 << 60, "heartbeatTimeoutMills": 60_000}
        await self._ask(to, codes.BROKER_HEARTBEAT, beat)
        if self.how == "takeover":
            self._master.says = self._says
            others = ";".join(str(each) for each in one.replicas if each != wanted)
            removed = {**base, "brokerControllerIdsToClean": others, "isCleanLivingBroker": "true"}
            await self._ask(to, codes.CLEAN_BROKER_DATA, removed)
            await self._ask(to, codes.CONTROLLER_ELECT_MASTER, {**mine, "designateElect": "true"})
            await self._reign(to, beat)
        return False

    async def _reign(self, to: ClientConnection, beat: dict[str, object]) -> None:
        """Stay the master for a while: replicas get the address of its log from name servers."""
        host = f"{self._spied.ip(self._spied.places('name server')[0])}:{PORTS['name server']}"
        names = await ClientConnection.connect(host, TIMEOUT_S, world=self._process.world)
        try:
            for _ in range(int(self._lasts) + 1):
                await self._registered(names, HA_PORT)
                await self._ask(to, codes.BROKER_HEARTBEAT, beat)
                await asyncio.sleep(1.0)
        finally:
            names.close()

    # -- the name server and the broker

    async def _names(self, to: ClientConnection) -> bool | None:
        base: dict[str, object] = {"brokerName": self._set, "clusterName": CLUSTER, "brokerId": 0}
        if self.how == "unregister":
            where = f"{self._spied.ip(self._victim)}:{BROKER_PORT}"
            answer = await self._ask(to, codes.UNREGISTER_BROKER, {**base, "brokerAddr": where})
            return answer.code != codes.SUCCESS
        if self.how == "heartbeat":
            answer = await self._ask(to, codes.BROKER_HEARTBEAT, {**base, "brokerAddr": self._own})
            return answer.code != codes.SUCCESS
        self._master.says = self._says
        if self.how == "log":
            return await self._of_master(to)
        answer = await self._registered(to, 1)
        await asyncio.sleep(self._lasts if answer.code == codes.SUCCESS else 0.0)
        return answer.code != codes.SUCCESS

    async def _of_master(self, to: ClientConnection) -> bool | None:
        """Register the set's master with another log address repeatedly: the master registers its log periodically."""
        one = self._spied.set_named(self._set)
        if one is None or one.master is None:
            return None
        until = self._process.loop.time() + self._lasts
        while (await self._registered(to, HA_PORT, one.replicas[one.master].address)).code == codes.SUCCESS:
            if self._process.loop.time() >= until:
                return False
            await asyncio.sleep(0.1)
        return True

    async def _registered(self, to: ClientConnection, log_port: int, address: str = "") -> Command:
        """Register as the master of the set, with newer tables than any broker has; by default with its own address."""
        version = b'{"counter":99,"timestamp":9999999999999,"stateVersion":9}'
        nothing = struct.pack(">i", 0)
        table = struct.pack(">i", len(version)) + version + nothing + struct.pack(">i", 2) + b"[]" + nothing
        body = zlib.compress(table)
        ext: dict[str, object] = {
            "brokerName": self._set, "clusterName": CLUSTER, "brokerId": 0, "brokerAddr": address or self._own,
            "haServerAddr": f"{self._process.host.ip}:{log_port}", "compressed": "true", "bodyCrc32": 0,
        }  # fmt: skip
        return await self._ask(to, codes.REGISTER_BROKER, ext, body)

    async def _broker(self, to: ClientConnection) -> bool | None:
        ext: dict[str, object] = {"masterHaAddress": f"{self._process.host.ip}:{HA_PORT}", "masterAddress": self._own}
        code = codes.EXCHANGE_BROKER_HA_INFO
        body = b""
        if self.how == "role":
            code = codes.NOTIFY_BROKER_ROLE_CHANGED
            ext = {"masterAddress": self._own, "masterEpoch": HUGE, "syncStateSetEpoch": HUGE, "masterBrokerId": 77}
            body = encode_body(SyncStateSet([77], HUGE))
        answer = await self._ask(to, code, ext, body)
        return answer.code != codes.SUCCESS

    # -- the log

    async def _of_log(self) -> bool | None:
        count = 70 if self.how == "many" else 1
        raws = [await self._process.world.connect(Raw, *self._host(), None) for _ in range(count)]
        raw = raws[-1]
        if self.how == "plain":
            raw.send(plain_report(0) + plain_report(1 << 40))
        elif self.how != "many":
            one = self._spied.set_named(self._set)
            ids = [each for each in sorted(one.replicas) if each != one.master] if one is not None else []
            own = self._chance.choice(ids) if self.how == "member" and ids else 90 + self._chance.randrange(9)
            raw.send(encode_hello(Hello(own, learner=self.how == "learner")))
            if await raw.wait(lambda: len(raw.data) >= 20, TIMEOUT_S):
                await self._acknowledges(raw)
        await raw.wait(lambda: False, self._lasts)
        closed = raw.closed
        self.stolen = sum(len(each.data) for each in raws)
        for each in raws:
            each.close()
        return closed or not self.stolen

    async def _acknowledges(self, raw: Raw) -> None:
        """Report the end of the master's log without storing a byte."""
        end = int(struct.unpack_from(">q", raw.data, 8)[0])
        until = self._process.loop.time() + self._lasts
        while not raw.closed and self._process.loop.time() < until:
            raw.send(encode_report(end))
            await asyncio.sleep(0.2)
            end = max(end, self._spied.end(self.target))
