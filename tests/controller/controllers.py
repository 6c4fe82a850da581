"""Controllers over an engine in memory, driven request by request."""

from __future__ import annotations

from typing import Any

from bolide.controller.consensus import Kept, Leadership, LeadershipLost, Member
from bolide.controller.effects import Elect
from bolide.controller.options import ControllerOptions
from bolide.controller.replica_set import ReplicaSet
from bolide.controller.replies import answer_of
from bolide.controller.server import Controller, Open
from bolide.remoting import codes
from bolide.remoting.bodies.base import Body, encode_body
from bolide.remoting.bodies.controller import SyncStateSet
from bolide.remoting.command import Command, make_request
from bolide.remoting.replica_claims import NO_CLAIMS, Claims

NAME = "broker-a"
CLUSTER = {"clusterName": "DefaultCluster", "brokerName": NAME}


class Engine:
    """Keeps sets, and lets one controller lead. `history`: every state of every set that was ever kept."""

    def __init__(self) -> None:
        self.sets: dict[str, Kept] = {}
        self.history: list[ReplicaSet] = []
        self.leader: Member | None = None

    def change(self, member: Member, value: ReplicaSet, expected: int) -> int:
        now = self.sets[value.name].revision if value.name in self.sets else 0
        if self.leader != member or now != expected:
            raise LeadershipLost("not now")
        self.sets[value.name] = Kept(value, now + 1)
        self.history.append(value)
        return now + 1


class Seat:
    """One controller, and what it believes of the engine."""

    def __init__(self, engine: Engine, number: int = 0, **settings: Any) -> None:
        self.engine = engine
        self.me = Member(f"n{number}", f"10.0.0.{number}:9877")
        self.leads = False
        self.controller = Controller(ControllerOptions(**settings), self)
        self.opaque = 0
        self.said: list[str] = []
        """What elections that wait have logged."""

    @property
    def leadership(self) -> Leadership:
        return Leadership(self.engine.leader, (self.me,))

    def lead(self, now: int = 0) -> None:
        self.engine.leader = self.me
        self.leads = True
        self.controller.lead(dict(self.engine.sets), now)

    def ask(self, code: int, ext: dict[str, str] | None = None, body: Body | bytes = b"", now: int = 0) -> Command:
        """The answer to a request, whose decision is kept at once."""
        data = body if isinstance(body, bytes) else encode_body(body)
        self.opaque += 1
        command = make_request(code, self.opaque, ext or {}, data)
        answer = self.controller.handle(1, "10.0.0.9:1", command, now)
        if not isinstance(answer, Open):
            assert answer is not None
            return answer
        return self.keep(answer, command, now)

    def keep(self, opened: Open, command: Command, now: int) -> Command:
        found = self.controller.sets.get(opened.name)
        decision = opened.decide(None if found is None else found.value, now)
        if decision.after is not None:
            revision = self.engine.change(self.me, decision.after, 0 if found is None else found.revision)
            self.controller.kept(decision, revision, now)
        if said := self.controller.decided(opened, decision, now):
            self.said.append(said)
        return answer_of(command, decision)

    def keep_election(self, now: int) -> Command:
        """What the controller decides by itself about a master that is gone."""
        return self.keep(self.controller.election(NAME), make_request(0, 0), now)

    def keep_confirmed(self, now: int) -> Command:
        return self.keep(self.controller.note_confirmed(NAME), make_request(0, 0), now)

    # ---- what brokers do

    def beat(
        self, broker_id: int, now: int, channel: int = 0, claims: Claims = NO_CLAIMS, where: str = "", **more: object
    ) -> None:
        place = where or address(broker_id)
        fields = {"brokerAddr": place, "brokerId": broker_id, "heartbeatTimeoutMills": 10_000, **more}
        ext = CLUSTER | {name: str(value) for name, value in fields.items()} | claims.to_ext()
        request = make_request(codes.BROKER_HEARTBEAT, 0, ext, oneway=True)
        assert self.controller.handle(channel or broker_id, "10.0.0.9:1", request, now) is None

    def join(self, broker_id: int, now: int = 0, claims: Claims = NO_CLAIMS) -> Command:
        """A new broker takes its id and registers."""
        wanted = {"appliedBrokerId": str(broker_id), "registerCheckCode": f"{address(broker_id)};{broker_id}"}
        assert self.ask(codes.CONTROLLER_APPLY_BROKER_ID, CLUSTER | wanted, now=now).code == 0
        return self.register(broker_id, now, claims=claims)

    def register(self, broker_id: int, now: int = 0, where: str = "", claims: Claims = NO_CLAIMS) -> Command:
        ext = CLUSTER | {"brokerId": str(broker_id), "brokerAddress": where or address(broker_id)} | claims.to_ext()
        return self.ask(codes.CONTROLLER_REGISTER_BROKER, ext, now=now)

    def elect(self, broker_id: int, now: int = 0, designate: bool = False, life: str = "") -> Command:
        ext = CLUSTER | {"brokerId": str(broker_id), "designateElect": str(designate).lower()} | Claims(life).to_ext()
        return self.ask(codes.CONTROLLER_ELECT_MASTER, ext, now=now)

    def alter(
        self, master: int, epoch: int, ids: list[int], set_epoch: int, now: int = 0, life: str = ""
    ) -> Command:
        ext = {"brokerName": NAME, "masterBrokerId": str(master), "masterEpoch": str(epoch)} | Claims(life).to_ext()
        return self.ask(codes.CONTROLLER_ALTER_SYNC_STATE_SET, ext, SyncStateSet(ids, set_epoch), now)

    def one(self) -> ReplicaSet:
        return self.controller.sets[NAME].value


def address(broker_id: int) -> str:
    return f"10.0.1.{broker_id}:10911"


def set_of_two(seat: Seat, now: int = 0) -> None:
    """Brokers 1 (master of epoch 1) and 2, both in sync: set epoch 2."""
    for broker_id in (1, 2):
        seat.join(broker_id, now)
        seat.beat(broker_id, now)
    assert seat.elect(1, now).code == 0
    assert seat.alter(1, 1, [1, 2], 1, now).code == 0
    seat.controller.take_effects()


def life(broker_id: int, start: int = 1) -> Claims:
    """The claims of a broker's start; the one before it registered the token before."""
    return Claims(f"{broker_id}-{start}", f"{broker_id}-{start - 1}" if start > 1 else "")


def set_of_three(seat: Seat, *, confirmed: int = -1, synced: bool = True) -> None:
    """Brokers 1 (master of epoch 1), 2 and 3, all in sync, at their first start: set epoch 3."""
    for broker_id in (1, 2, 3):
        seat.join(broker_id, claims=life(broker_id))
        seat.beat(broker_id, 0, claims=life(broker_id))
    assert seat.elect(1, life="1-1").code == 0
    assert seat.alter(1, 1, [1, 2], 1, life="1-1").code == 0
    assert seat.alter(1, 1, [1, 2, 3], 2, life="1-1").code == 0
    if confirmed >= 0:
        seat.beat(1, 1, claims=Claims("1-1", leads=1, confirmed=confirmed, synced=synced), epoch=1, maxOffset=confirmed)
    seat.controller.take_effects()


def stop(seat: Seat, *broker_ids: int, now: int) -> None:
    """The brokers stop: their connections end, and the controller elects if it must."""
    for broker_id in broker_ids:
        seat.controller.channel_closed(broker_id, now)
        for effect in seat.controller.take_effects():
            if isinstance(effect, Elect):
                seat.keep_election(now)
