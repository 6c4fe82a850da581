"""A controller without sockets: maps requests, closed connections and timer ticks to responses and effects.

Serves codes 904, 1001 to 1006 and 1009 to 1013 (ControllerRequestProcessor.java). A request that may change a set
returns an `Open`: the caller runs its `decide`, stores the result in the engine, and then calls `kept`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from bolide.access.cluster_gate import cluster_gate
from bolide.controller import decisions
from bolide.controller.consensus import Kept, Leadership
from bolide.controller.decisions import Decide, SetDecision
from bolide.controller.effects import ClosePeer, Effect, Elect, KeepConfirmed, KeepControllerSettings, TellReplica
from bolide.controller.elections import Elections
from bolide.controller.liveness import Heartbeat, Identity, Liveness
from bolide.controller.options import ControllerOptions, ControllerSettings
from bolide.controller.replica_set import ReplicaSet
from bolide.controller.replies import not_leader
from bolide.errors import BolideError
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_body, encode_body
from bolide.remoting.bodies.controller import BrokerReplicasInfo, ReplicaIdentity, ReplicasInfo, SyncStateSet
from bolide.remoting.command import Command, make_response
from bolide.remoting.errors import HeaderError
from bolide.remoting.headers.controller import (
    AlterSyncStateSetRequestHeader,
    ApplyBrokerIdRequestHeader,
    CleanControllerBrokerDataRequestHeader,
    ElectMasterRequestHeader,
    GetMetaDataResponseHeader,
    GetNextBrokerIdRequestHeader,
    GetNextBrokerIdResponseHeader,
    GetReplicaInfoRequestHeader,
    GetReplicaInfoResponseHeader,
    NotifyBrokerRoleChangedRequestHeader,
    RegisterBrokerToControllerRequestHeader,
)
from bolide.remoting.headers.namesrv import BrokerHeartbeatRequestHeader
from bolide.remoting.replica_claims import NOT_KNOWN, claims_of
from bolide.remoting.request_routes import ORDINARY, Kind, RawRoute, RequestTable, Route, Row
from bolide.remoting.unsupported import unsupported

NO_BROKER: Final = -1
"""Broker id of an election that no broker requested."""
KEEP_CONFIRMED_MS: Final = 60_000
"""Interval at which confirm offsets are stored. Every decision about a set also stores its offset. So the stored offset
is exact once the brokers of the set have stopped, unless the controller also has a power failure."""
MAX_NAME: Final = 1024
"""Maximum number of characters of a name, an address or a check code. Real ones are at most a quarter as long."""


class Open(NamedTuple):
    """A request about one set. Its response is sent once the decision is stored."""

    name: str
    decide: Decide
    elects: bool = False


Answer: TypeAlias = Command | Open


class Engine(Protocol):
    """Reports the current leadership."""

    @property
    def leadership(self) -> Leadership:
        """The current leadership, as far as this controller knows."""

    @property
    def leads(self) -> bool:
        """Whether this controller is certainly the leader."""


class Controller:
    """One controller of the group that shares `engine`."""

    def __init__(self, options: ControllerOptions, engine: Engine) -> None:
        self.settings = ControllerSettings(options)
        self.sets: dict[str, Kept] = {}
        """All sets by name, as stored by the engine. Empty unless this controller is the leader."""
        self.live = Liveness(options.max_brokers)
        self.table: RequestTable[int, Answer] = RequestTable()
        self.table.add("Controller", self.routes())
        self.elections = Elections(self.live, self.settings)
        self._engine = engine
        self._loaded = False
        self._ordinary = self.table.ordinary()
        self._gate = cluster_gate(options, self.table)
        self._effects: list[Effect] = []
        self._next_expiry = 0
        self._next_scan = 0
        self._next_keep = 0

    def routes(self) -> Sequence[Row[int, Answer]]:
        """Return the routes of the served request codes."""
        passing = frozenset({codes.CONTROLLER_NOT_LEADER})
        return [
            Route(codes.BROKER_HEARTBEAT, BrokerHeartbeatRequestHeader, self.on_heartbeat, Kind.SESSION),
            Route(
                codes.CONTROLLER_ALTER_SYNC_STATE_SET,
                AlterSyncStateSetRequestHeader,
                self.on_alter,
                Kind.CHANGE,
                ordinary=passing,
            ),
            Route(
                codes.CONTROLLER_ELECT_MASTER,
                ElectMasterRequestHeader,
                self.on_elect,
                Kind.CHANGE,
                ordinary=passing | {codes.CONTROLLER_MASTER_STILL_EXIST},
            ),
            Route(
                codes.CONTROLLER_REGISTER_BROKER,
                RegisterBrokerToControllerRequestHeader,
                self.on_register,
                Kind.CHANGE,
                ordinary=passing,
            ),
            Route(
                codes.CONTROLLER_GET_REPLICA_INFO,
                GetReplicaInfoRequestHeader,
                self.on_replica_info,
                Kind.READ,
                ordinary=passing,
            ),
            RawRoute(codes.CONTROLLER_GET_METADATA_INFO, None, self.on_metadata, Kind.READ),
            RawRoute(codes.CONTROLLER_GET_SYNC_STATE_DATA, None, self.on_in_sync, Kind.READ, ordinary=passing),
            RawRoute(codes.UPDATE_CONTROLLER_CONFIG, None, self.on_update_config, Kind.CHANGE),
            RawRoute(codes.GET_CONTROLLER_CONFIG, None, self.on_get_config, Kind.READ),
            Route(
                codes.CLEAN_BROKER_DATA,
                CleanControllerBrokerDataRequestHeader,
                self.on_clean,
                Kind.CHANGE,
                ordinary=passing,
            ),
            Route(
                codes.CONTROLLER_GET_NEXT_BROKER_ID,
                GetNextBrokerIdRequestHeader,
                self.on_next_id,
                Kind.READ,
                ordinary=passing,
            ),
            Route(
                codes.CONTROLLER_APPLY_BROKER_ID,
                ApplyBrokerIdRequestHeader,
                self.on_apply_id,
                Kind.CHANGE,
                ordinary=passing,
            ),
        ]

    # ---- called by the node

    @property
    def leads(self) -> bool:
        """Whether this controller serves requests about sets. Evaluated for each request, because the process may have
        been suspended."""
        return self._loaded and self._engine.leads

    def handle(self, channel_id: int, remote: str, command: Command, now: int) -> Answer | None:
        """Handle a request. Return a response, an `Open`, or None for a response or a completed oneway request.

        `channel_id`: id of the connection, never reused. `remote`: peer, for remarks. `now`: ms since the epoch.
        """
        if command.is_response:
            return None
        handler = self.table.handlers.get(command.code)
        refused = None if self._gate is None else self._gate.refused(remote, command)
        if handler is None:
            answer: Answer = unsupported(command)
        elif refused is not None:
            answer = refused
        else:
            try:
                answer = handler(channel_id, command, now)
            except BolideError as error:
                answer = make_response(
                    command, error.code or codes.SYSTEM_ERROR, f"{type(error).__name__} from {remote}: {error}"
                )
        return None if command.is_oneway and isinstance(answer, Command) else answer

    def is_ordinary(self, request: Command, answer: Command) -> bool:
        """Return whether this error response is part of normal operation and need not be logged."""
        return answer.code in self._ordinary.get(request.code, ORDINARY)

    def lead(self, sets: dict[str, Kept], now: int) -> None:
        """Become the leader with the sets that the engine has stored."""
        self.sets = sets
        self._loaded = True
        self._next_scan = now + self.settings.options.scan_inactive_master_interval
        self._next_keep = now + KEEP_CONFIRMED_MS

    def follow(self) -> None:
        """Called when another controller is or may be the leader."""
        self._loaded = False
        self.sets = {}
        self.elections.follow()

    def kept(self, decision: SetDecision, revision: int, now: int) -> None:
        """Apply a decision that the engine has stored."""
        after = decision.after
        if after is None:
            return
        before = self.sets.get(after.name)
        self.sets[after.name] = Kept(after, revision)
        # A master adds only replicas that have its whole log. After an election, the set has the new master's log.
        known = before.value.in_sync if before is not None and not decision.new_master else ()
        self.live.joined(after, set(after.in_sync) - set(known))
        if decision.new_master and self.settings.options.notify_broker_role_changed:
            header = NotifyBrokerRoleChangedRequestHeader(
                master_address=after.address_of(after.master),
                master_epoch=after.master_epoch,
                sync_state_set_epoch=after.in_sync_epoch,
                master_broker_id=after.master,
            )
            body = encode_body(decisions.in_sync_body(after))
            for broker_id in self.live.alive_in(after, now):
                addr = after.replicas[broker_id].address
                self._effects.append(TellReplica(addr, codes.NOTIFY_BROKER_ROLE_CHANGED, header.to_ext(), body))

    def election(self, name: str) -> Open:
        """Return the request for an election, which the controller starts when the master of a set has failed."""
        return self._noting(name, lambda one, now: self.elections.decide(one, now, None, False, None), elects=True)

    def note_confirmed(self, name: str) -> Open:
        """Return a request that stores the confirm offset of a set."""
        return self._noting(name, lambda one, now: SetDecision(codes.SUCCESS, after=one), elects=False)

    def decided(self, opened: Open, decision: SetDecision, now: int) -> str:
        """Record a stored decision. Return a text to log if an election waits for a new reason, otherwise ""."""
        found = self.sets.get(opened.name)
        return self.elections.decided(found.value, decision, now) if opened.elects and found is not None else ""

    def channel_closed(self, channel_id: int, now: int) -> None:
        """Called when a connection closes. Removes the brokers whose last heartbeat arrived on it."""
        for who in self.live.channel_closed(channel_id):
            self._gone(who)

    def due(self, now: int) -> int:
        """Return when to call `tick` next, ms since the epoch."""
        return min(self._next_expiry, self._next_scan, self._next_keep) if self.leads else self._next_expiry

    def tick(self, now: int) -> None:
        """Do due work: remove brokers without heartbeats, start elections in sets whose master has failed, and store
        confirm offsets."""
        options = self.settings.options
        if now >= self._next_expiry:
            self._next_expiry = now + options.scan_not_active_broker_interval
            for who, channel_id in self.live.expire(now).items():
                self._effects.append(ClosePeer(channel_id, f"no heartbeat of {who.name} {who.broker_id}"))
                self._gone(who)
        if self.leads and now >= self._next_scan:
            self._next_scan = now + options.scan_inactive_master_interval
            for one, _ in self.sets.values():
                alive = self.live.alive_in(one, now)
                lost = one.master is not None and one.master not in alive
                if alive and (lost or one.name in self.elections.waiting):
                    self._effects.append(Elect(one.name))
        if self.leads and now >= self._next_keep:
            self._next_keep = now + KEEP_CONFIRMED_MS
            for one, _ in self.sets.values():
                if decisions.noted(one, self.live.office(one)) is not one:
                    self._effects.append(KeepConfirmed(one.name))

    def take_effects(self) -> list[Effect]:
        """Remove and return the effects since the last call, in order."""
        taken, self._effects = self._effects, []
        return taken

    # ---- requests

    def on_heartbeat(self, channel_id: int, command: Command, header: BrokerHeartbeatRequestHeader, now: int) -> Answer:
        """Handle BROKER_HEARTBEAT."""
        if header.broker_id is None:
            return make_response(command, codes.CONTROLLER_INVALID_REQUEST, "Heart beat with empty brokerId")
        if max(len(header.cluster_name), len(header.broker_name)) > MAX_NAME:
            return make_response(command, codes.SYSTEM_ERROR, f"a name has at most {MAX_NAME} characters")
        claims = claims_of(command.ext())
        known = self.sets.get(header.broker_name)
        if known is not None and (
            why := decisions.not_a_sign_of(known.value, header.broker_id, header.broker_addr, claims.life)
        ):
            return make_response(command, codes.CONTROLLER_INVALID_REQUEST, why)
        if self._loaded and (known is None or not decisions.leads(known.value, header.broker_id, claims)):
            claims = claims._replace(leads=NOT_KNOWN)
        if why := self.live.heard(channel_id, header, header.broker_id, claims, now):
            return make_response(command, codes.SYSTEM_ERROR, why)
        return make_response(command, codes.SUCCESS, "Heart beat success")

    def on_alter(self, channel_id: int, command: Command, header: AlterSyncStateSetRequestHeader, now: int) -> Answer:
        """Handle CONTROLLER_ALTER_SYNC_STATE_SET."""
        name = named(header.broker_name, "brokerName", command)
        body = decisions.read_ids(decode_body(command.body, SyncStateSet))
        life = claims_of(command.ext()).life
        return self._open(
            command, name, lambda one, at: decisions.alter_in_sync(one, self._living(one, at), header, body, life)
        )

    def on_elect(self, channel_id: int, command: Command, header: ElectMasterRequestHeader, now: int) -> Answer:
        """Handle CONTROLLER_ELECT_MASTER."""
        asking = None if header.broker_id == NO_BROKER else header.broker_id
        life = None if header.designate_elect else claims_of(command.ext()).life
        return self._open(
            command,
            header.broker_name,
            lambda one, at: self.elections.decide(one, at, asking, header.designate_elect, life),
            elects=True,
        )

    def on_register(
        self, channel_id: int, command: Command, header: RegisterBrokerToControllerRequestHeader, now: int
    ) -> Answer:
        """Handle CONTROLLER_REGISTER_BROKER."""
        name = named(header.broker_name, "brokerName", command)
        if header.broker_address:
            named(header.broker_address, "brokerAddress", command)
        claims = claims_of(command.ext())
        return self._open(command, name, lambda one, at: decisions.register(one, self._living(one, at), header, claims))

    def on_apply_id(self, channel_id: int, command: Command, header: ApplyBrokerIdRequestHeader, now: int) -> Answer:
        """Handle CONTROLLER_APPLY_BROKER_ID."""
        name = named(header.broker_name, "brokerName", command)
        cluster = named(header.cluster_name, "clusterName", command)
        code = named(header.register_check_code, "registerCheckCode", command)
        if name not in self.sets and len(self.sets) >= self.settings.options.max_broker_sets and self.leads:
            remark = "there are as many sets of replicas as maxBrokerSets allows"
            return make_response(command, codes.SYSTEM_ERROR, remark)
        return self._open(command, name, lambda one, at: decisions.apply_id(one, header, cluster, name, code))

    def on_clean(
        self, channel_id: int, command: Command, header: CleanControllerBrokerDataRequestHeader, now: int
    ) -> Answer:
        """Handle CLEAN_BROKER_DATA."""
        return self._open(
            command, header.broker_name, lambda one, at: decisions.clean(one, self._living(one, at), header)
        )

    def on_next_id(self, channel_id: int, command: Command, header: GetNextBrokerIdRequestHeader, now: int) -> Answer:
        """Handle CONTROLLER_GET_NEXT_BROKER_ID."""
        if not self.leads:
            return not_leader(command)
        found = self.sets.get(named(header.broker_name, "brokerName", command))
        answer = GetNextBrokerIdResponseHeader(
            cluster_name=header.cluster_name,
            broker_name=header.broker_name,
            next_broker_id=decisions.next_id(None if found is None else found.value),
        )
        return make_response(command, codes.SUCCESS, ext=answer.to_ext())

    def on_replica_info(
        self, channel_id: int, command: Command, header: GetReplicaInfoRequestHeader, now: int
    ) -> Answer:
        """Handle CONTROLLER_GET_REPLICA_INFO."""
        if not self.leads:
            return not_leader(command)
        found = self.sets.get(named(header.broker_name, "brokerName", command))
        if found is None or not found.value.replicas:
            return make_response(command, codes.CONTROLLER_BROKER_METADATA_NOT_EXIST, "Broker metadata is not existed")
        one = found.value
        answer = GetReplicaInfoResponseHeader(
            master_broker_id=one.master, master_address=one.address_of(one.master), master_epoch=one.master_epoch
        )
        body = encode_body(decisions.in_sync_body(one))
        return make_response(command, codes.SUCCESS, ext=answer.to_ext(), body=body)

    def on_metadata(self, channel_id: int, command: Command, now: int) -> Answer:
        """Handle CONTROLLER_GET_METADATA_INFO. Also served by controllers that are not the leader."""
        leadership = self._engine.leadership
        leader = leadership.leader
        answer = GetMetaDataResponseHeader(
            group=self.settings.options.controller_d_leger_group,
            controller_leader_id=None if leader is None else leader.id,
            controller_leader_address=None if leader is None else leader.address,
            is_leader=self.leads,
            peers="".join(f"{peer.id}:{peer.address};" for peer in leadership.peers),
        )
        return make_response(command, codes.SUCCESS, ext=answer.to_ext())

    def on_in_sync(self, channel_id: int, command: Command, now: int) -> Answer:
        """Handle CONTROLLER_GET_SYNC_STATE_DATA."""
        names: list[str] = decode_body(command.body, list[str]) if command.body else []
        if not names:
            return make_response(command, codes.SYSTEM_ERROR, "not set any response code")
        if not self.leads:
            return not_leader(command)
        table = {name: self._replicas_info(self.sets[name].value, now) for name in names if self._known(name)}
        return make_response(command, codes.SUCCESS, body=encode_body(BrokerReplicasInfo(table)))

    def on_get_config(self, channel_id: int, command: Command, now: int) -> Answer:
        """Handle GET_CONTROLLER_CONFIG."""
        return self.settings.show(command)

    def on_update_config(self, channel_id: int, command: Command, now: int) -> Answer:
        """Handle UPDATE_CONTROLLER_CONFIG."""
        answer, changes = self.settings.update(command)
        if changes:
            self._effects.append(KeepControllerSettings(changes))
        return answer

    # ---- inside

    def _open(self, command: Command, name: str, decide: Decide, *, elects: bool = False) -> Answer:
        return self._noting(name, decide, elects) if self.leads else not_leader(command)

    def _noting(self, name: str, decide: Decide, elects: bool) -> Open:
        """Return an `Open` whose decision also stores the confirm offset of the set, without an extra write."""

        def decided(one: ReplicaSet | None, now: int) -> SetDecision:
            decision = decide(one, now)
            if one is None or decision.after is None:
                return decision
            noted = decisions.noted(decision.after, self.live.office(one))
            return decision._replace(after=None if noted is one else noted)

        return Open(name, decided, elects)

    def _living(self, one: ReplicaSet | None, now: int) -> dict[int, Heartbeat]:
        return {} if one is None else self.live.alive_in(one, now)

    def _known(self, name: str) -> bool:
        found = self.sets.get(name)
        return found is not None and bool(found.value.replicas)

    def _gone(self, who: Identity) -> None:
        found = self.sets.get(who.name)
        if found is not None and found.value.master == who.broker_id and found.value.cluster == who.cluster:
            self._effects.append(Elect(who.name))

    def _replicas_info(self, one: ReplicaSet, now: int) -> ReplicasInfo:
        alive = self.live.alive_in(one, now)
        info = ReplicasInfo(one.master, one.address_of(one.master), one.master_epoch, one.in_sync_epoch)
        for broker_id, replica in sorted(one.replicas.items()):
            place = info.in_sync_replicas if broker_id in one.in_sync else info.not_in_sync_replicas
            heard = alive.get(broker_id)
            end = None if heard is None or heard.max_offset < 0 else heard.max_offset
            place.append(ReplicaIdentity(one.name, broker_id, replica.address, heard is not None, end))
        office = self.live.office(one)
        info.confirmed_offset = None if office is None or office.confirmed < 0 else office.confirmed
        return info


def named(value: str | None, field: str, command: Command) -> str:
    """Return a field that Java requires without declaring so. Raises `HeaderError` if it is missing or too long."""
    if not value:
        raise HeaderError(f"the field {field} of {codes.request_name(command.code)} is missing; send it in extFields")
    if len(value) > MAX_NAME:
        raise HeaderError(f"the field {field} has {len(value)} characters; at most {MAX_NAME} are allowed")
    return value
