"""Requests of a replica to the lead controller (docs/protocol/ha.md), and heartbeats to all controllers."""

from __future__ import annotations

from bolide.broker.options.composed import BrokerOptions
from bolide.node.replication.broker_identity import Applied
from bolide.node.replication.controllers import Controllers, NoController
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer, encode_body
from bolide.remoting.bodies.controller import BrokerReplicasInfo, ReplicasInfo, SyncStateSet
from bolide.remoting.command import Command
from bolide.remoting.headers.base import Header
from bolide.remoting.headers.controller import (
    ApplyBrokerIdRequestHeader,
    ElectMasterRequestHeader,
    GetNextBrokerIdRequestHeader,
    GetNextBrokerIdResponseHeader,
    GetReplicaInfoRequestHeader,
    GetReplicaInfoResponseHeader,
    RegisterBrokerToControllerRequestHeader,
)
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.namesrv import BrokerHeartbeatRequestHeader
from bolide.remoting.replica_claims import NO_CLAIMS, NOT_KNOWN, Claims
from bolide.replication.standing import Told
from bolide.world.contract import World


class NotRegistered(NoController):
    """The controller does not have this broker set."""


class IdentityTaken(NoController):
    """The controller lists this replica's id at another address."""


class ControllerRequests:
    """Sends requests to the lead controller. These methods raise `NoController` for an error response, and connection
    errors."""

    def __init__(self, options: BrokerOptions, address: str, world: World, controllers: Controllers) -> None:
        """`address`: address of this broker for clients."""
        self._options = options
        self._cluster = options.place.broker_cluster_name
        self._name = options.place.broker_name
        self._address = address
        self._world = world
        self._controllers = controllers

    async def next_id(self) -> int:
        """Return the next free id of the set."""
        request = GetNextBrokerIdRequestHeader(self._cluster, self._name)
        answer = await self._ask(codes.CONTROLLER_GET_NEXT_BROKER_ID, request)
        next_id = decode_header(answer, GetNextBrokerIdResponseHeader).next_broker_id
        if next_id is None or next_id <= 0:
            raise NoController(f"the controller says that the next id is {next_id}")
        return next_id

    async def apply(self, applied: Applied) -> bool:
        """Apply for an id. Return False if another broker has it."""
        request = ApplyBrokerIdRequestHeader(
            cluster_name=self._cluster,
            broker_name=self._name,
            applied_broker_id=applied.broker_id,
            register_check_code=applied.check_code,
        )
        taken = codes.CONTROLLER_BROKER_ID_INVALID
        answer = await self._ask(codes.CONTROLLER_APPLY_BROKER_ID, request, frozenset({taken}))
        return answer.code != taken

    async def register(self, own_id: int, claims: Claims) -> Command:
        """Register the address of this broker. Return the response, which contains the master if it is alive."""
        request = RegisterBrokerToControllerRequestHeader(
            cluster_name=self._cluster,
            broker_name=self._name,
            broker_id=own_id,
            broker_address=self._address,
            invoke_time=self._world.wall_ms(),
        )
        return await self._ask(codes.CONTROLLER_REGISTER_BROKER, request, claims=claims)

    async def elect(self, own_id: int, life: str) -> None:
        """Request an election with this broker as a candidate. A live master remains the master."""
        request = ElectMasterRequestHeader(
            cluster_name=self._cluster,
            broker_name=self._name,
            broker_id=own_id,
            designate_elect=False,
            invoke_time=self._world.wall_ms(),
        )
        also = frozenset({codes.CONTROLLER_MASTER_STILL_EXIST})
        await self._ask(codes.CONTROLLER_ELECT_MASTER, request, also, Claims(life))

    async def told(self) -> Told:
        """Return the master, its epoch and the in-sync set. Raises `NotRegistered` if there is no such set."""
        request = GetReplicaInfoRequestHeader(self._name)
        unknown = codes.CONTROLLER_BROKER_METADATA_NOT_EXIST
        answer = await self._ask(codes.CONTROLLER_GET_REPLICA_INFO, request, frozenset({unknown}))
        if answer.code == unknown:
            raise NotRegistered(f"the controller does not know {self._name}: {answer.remark}")
        header = decode_header(answer, GetReplicaInfoResponseHeader)
        body = decode_answer(answer.body, SyncStateSet)
        if header.master_epoch is None:
            raise NoController("the controller returned no epoch")
        members = frozenset(body.sync_state_set)
        address = header.master_address or ""
        master = header.master_broker_id if address else None
        return Told(master, address, header.master_epoch, members, body.sync_state_set_epoch)

    async def check_identity(self, own_id: int) -> None:
        """Raise `IdentityTaken` if a broker at another address has registered with this id."""
        body = encode_body([self._name])
        answer = await self._ask(codes.CONTROLLER_GET_SYNC_STATE_DATA, None, body=body)
        known = decode_answer(answer.body, BrokerReplicasInfo).replicas_info_table.get(self._name, ReplicasInfo())
        for replica in (*known.in_sync_replicas, *known.not_in_sync_replicas):
            if replica.broker_id == own_id and replica.broker_address != self._address:
                raise IdentityTaken(
                    f"a broker at {replica.broker_address} has registered as replica {own_id} of {self._name} while "
                    f"this broker was away: stop it if it runs with a copy of this store"
                )

    def beat(self, own_id: int, stands: tuple[int, int, int], claims: Claims) -> None:
        """Send a heartbeat to all controllers. `stands` is `RoleTaker.stands`."""
        end, confirmed, epoch = stands
        controlled = self._options.controlled
        header = BrokerHeartbeatRequestHeader(
            cluster_name=self._cluster,
            broker_addr=self._address,
            broker_name=self._name,
            broker_id=own_id,
            epoch=epoch,
            max_offset=end,
            confirm_offset=confirmed,
            heartbeat_timeout_mills=controlled.controller_heart_beat_timeout_mills,
            election_priority=controlled.broker_election_priority,
        )
        self._controllers.beat(header.to_ext() | claims.to_ext())

    def claims_of_master(self, life: str, epoch: int, confirmed: int) -> Claims:
        """Return the claims of the master of an epoch. They contain `confirmed` only if sends wait for slaves."""
        options = self._options
        waits = options.controlled.all_ack_in_sync_state_set or options.replication.in_sync_replicas > 1
        return Claims(
            life,
            leads=epoch,
            confirmed=confirmed if waits else NOT_KNOWN,
            synced=waits and options.store.sync_flush,
        )

    async def _ask(
        self,
        code: int,
        header: Header | None,
        also: frozenset[int] = frozenset(),
        claims: Claims = NO_CLAIMS,
        body: bytes = b"",
    ) -> Command:
        """Return a response with SUCCESS or a code in `also`. Raises `NoController` for any other code."""
        ext = {} if header is None else header.to_ext()
        answer = await self._controllers.ask(code, ext | claims.to_ext(), body)
        if answer.code != codes.SUCCESS and answer.code not in also:
            name = codes.request_name(code)
            raise NoController(f"{name} failed with {codes.response_name(answer.code)}: {answer.remark}")
        return answer
