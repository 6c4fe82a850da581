"""What becomes of a set of replicas, request by request (ReplicasInfoManager.java).

Each function gets the set as it is kept, or None, and who lives; it returns a `SetDecision`. Nothing changes here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from bolide.controller.election import elect
from bolide.controller.liveness import Heartbeat
from bolide.controller.replica_set import FIRST_ID, Replica, ReplicaSet
from bolide.remoting import codes
from bolide.remoting.bodies.base import Body
from bolide.remoting.bodies.controller import ElectMasterResponseBody, SyncStateSet
from bolide.remoting.bodies.route import BrokerMemberGroup
from bolide.remoting.errors import BodyError
from bolide.remoting.headers.base import Header
from bolide.remoting.headers.controller import (
    AlterSyncStateSetRequestHeader,
    AlterSyncStateSetResponseHeader,
    ApplyBrokerIdRequestHeader,
    ApplyBrokerIdResponseHeader,
    CleanControllerBrokerDataRequestHeader,
    ElectMasterResponseHeader,
    RegisterBrokerToControllerRequestHeader,
    RegisterBrokerToControllerResponseHeader,
)

Living = Mapping[int, Heartbeat]
"""The replicas of a set that live, by id."""
HIGHEST_ID: Final = 1 << 53
MOST_REPLICAS: Final = 128
"""Of one set: a decision writes them all."""


class SetDecision(NamedTuple):
    """The answer to a request, and the set as it is from then on: None when nothing changes."""

    code: int
    remark: str | None = None
    header: Header | None = None
    body: Body | None = None
    after: ReplicaSet | None = None
    new_master: bool = False
    """The living replicas are told."""


Decide = Callable[[ReplicaSet | None, int], SetDecision]
"""(the set as it is kept, now) -> what becomes of it."""


def known(one: ReplicaSet | None) -> bool:
    """Whether a set has replicas: one that was removed counts as unknown."""
    return one is not None and bool(one.replicas)


def in_sync_body(one: ReplicaSet) -> SyncStateSet:
    """The set of replicas in sync, as brokers are told."""
    return SyncStateSet(list(one.in_sync), one.in_sync_epoch)


def alter_in_sync(
    one: ReplicaSet | None, living: Living, header: AlterSyncStateSetRequestHeader, body: SyncStateSet
) -> SetDecision:
    """1001: a master changes who is in sync. The checks are Java's, in its order."""
    failed = codes.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
    if one is None or not one.replicas:
        return SetDecision(failed, "Broker metadata is not existed")
    wanted = set(body.sync_state_set)
    code, why = 0, ""
    rejected = "Rejecting alter syncStateSet request because the"
    if wanted == set(one.in_sync):
        code, why = failed, "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet"
    elif one.master is None or one.master != header.master_broker_id:
        code = codes.CONTROLLER_INVALID_MASTER
        why = f"{rejected} current leader is:{{{java(one.master)}}}, not {{{java(header.master_broker_id)}}}"
    elif one.master_epoch != header.master_epoch:
        code = codes.CONTROLLER_FENCED_MASTER_EPOCH
        why = f"{rejected} current master epoch is:{{{one.master_epoch}}}, not {{{java(header.master_epoch)}}}"
    elif one.in_sync_epoch != body.sync_state_set_epoch:
        code = codes.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
        why = f"{rejected} current syncStateSet epoch is:{{{one.in_sync_epoch}}}, not {{{body.sync_state_set_epoch}}}"
    elif unknown := sorted(wanted - one.replicas.keys()):
        code, why = codes.CONTROLLER_INVALID_REPLICAS, f"{rejected} replicas {{{unknown[0]}}} don't exist"
    elif dead := sorted(wanted - living.keys()):
        code, why = codes.CONTROLLER_BROKER_NOT_ALIVE, f"{rejected} replicas {{{dead[0]}}} don't alive"
    elif one.master not in wanted:
        code, why = failed, f"{rejected} newSyncStateSet don't contains origin leader {{{one.master}}}"
    if code:
        return SetDecision(code, why, AlterSyncStateSetResponseHeader(new_sync_state_set_epoch=0))
    after = replace(one, in_sync=tuple(sorted(wanted)), in_sync_epoch=one.in_sync_epoch + 1)
    answer = AlterSyncStateSetResponseHeader(new_sync_state_set_epoch=after.in_sync_epoch)
    return SetDecision(codes.SUCCESS, header=answer, body=in_sync_body(after), after=after)


def elect_master(
    one: ReplicaSet | None, living: Living, asking: int | None, designate: bool, unclean: bool
) -> SetDecision:
    """1002: elect a master if there is none that lives, or the one that an operator designates.

    asking: the id of the broker that asks or is designated; None: the controller itself noticed that a master died.
    """
    if one is None or not one.replicas:
        return SetDecision(codes.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "Broker hasn't been registered")
    if asking is not None and not one.elected:
        if asking not in one.replicas:
            remark = f"BrokerId: {asking} hasn't been registered in broker-set: {one.name}"
            return SetDecision(codes.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark)
        found: int | None = asking
    else:
        found = elect(one, living, asking if designate else None, unclean)
    if found is not None and found == one.master:
        remark = f"The old master {found} is still alive, not need to elect new master for broker {one.name}"
        body = ElectMasterResponseBody(None, list(one.in_sync))
        return SetDecision(codes.CONTROLLER_MASTER_STILL_EXIST, remark, _master_header(one), body)
    if found is not None:
        after = replace(
            one,
            master=found,
            master_epoch=one.master_epoch + 1,
            in_sync=(found,),
            in_sync_epoch=one.in_sync_epoch + 1,
            elected=True,
        )
        return SetDecision(codes.SUCCESS, None, _master_header(after), election_body(after), after, new_master=True)
    if asking is not None:
        return SetDecision(codes.CONTROLLER_ELECT_MASTER_FAILED, "Failed to elect a new master")
    remark = "Old master has down and failed to elect a new broker master"
    gone = None if one.master is None else replace(one, master=None, master_epoch=one.master_epoch + 1)
    return SetDecision(codes.CONTROLLER_MASTER_NOT_AVAILABLE, remark, after=gone)


def election_body(one: ReplicaSet) -> ElectMasterResponseBody:
    """All replicas of a set, and those in sync."""
    addresses = {broker_id: replica.address for broker_id, replica in sorted(one.replicas.items())}
    return ElectMasterResponseBody(BrokerMemberGroup(one.cluster, one.name, addresses), list(one.in_sync))


def _master_header(one: ReplicaSet) -> ElectMasterResponseHeader:
    return ElectMasterResponseHeader(
        master_broker_id=one.master,
        master_address=one.address_of(one.master),
        master_epoch=one.master_epoch,
        sync_state_set_epoch=one.in_sync_epoch,
    )


def next_id(one: ReplicaSet | None) -> int:
    """1012: the id that a new broker may apply for."""
    return FIRST_ID if one is None else one.next_id


def apply_id(
    one: ReplicaSet | None, header: ApplyBrokerIdRequestHeader, cluster: str, name: str, check_code: str
) -> SetDecision:
    """1013: a broker takes an id, unless another one has it. The same check code takes the same id again."""
    wanted = header.applied_broker_id
    answer = ApplyBrokerIdResponseHeader(cluster_name=cluster, broker_name=name)
    invalid = codes.CONTROLLER_BROKER_ID_INVALID
    if wanted is None or not FIRST_ID <= wanted <= HIGHEST_ID:
        return SetDecision(invalid, f"Fail to apply brokerId: {java(wanted)} in broker-set: {name}", answer)
    if one is None and wanted != FIRST_ID:
        remark = f"Broker-set: {name} hasn't been registered in controller, but broker try to apply brokerId: {wanted}"
        return SetDecision(invalid, remark, answer)
    before = ReplicaSet(cluster=cluster, name=name, replicas={}) if one is None else one
    holder = before.replicas.get(wanted)
    if holder is not None:
        if holder.check_code == check_code:
            return SetDecision(codes.SUCCESS, header=answer)
        return SetDecision(invalid, f"Fail to apply brokerId: {wanted} in broker-set: {name}", answer)
    if wanted < before.next_id:
        # It belonged to a replica that was removed: its log may be another one. RocketMQ takes any id that is free.
        return SetDecision(invalid, f"Fail to apply brokerId: {wanted} in broker-set: {name}", answer)
    if len(before.replicas) >= MOST_REPLICAS:
        remark = f"the broker-set {name} has {MOST_REPLICAS} replicas already: clean those that are gone"
        return SetDecision(codes.SYSTEM_ERROR, remark, answer)
    replica = Replica(check_code.partition(";")[0], check_code)
    after = replace(
        before,
        cluster=before.cluster if before.replicas else cluster,
        next_id=wanted + 1,
        replicas={**before.replicas, wanted: replica},
    )
    return SetDecision(codes.SUCCESS, header=answer, after=after)


def register(one: ReplicaSet | None, living: Living, header: RegisterBrokerToControllerRequestHeader) -> SetDecision:
    """1003: a broker with an id says where it is, and hears of its master while that lives."""
    name, wanted, address = header.broker_name, header.broker_id, header.broker_address
    answer = RegisterBrokerToControllerResponseHeader(cluster_name=header.cluster_name, broker_name=name)
    missing = codes.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    if one is None or not one.replicas:
        return SetDecision(missing, f"Broker-set: {java(name)} hasn't been registered in controller", answer)
    if wanted is None or wanted not in one.replicas:
        remark = f"BrokerId: {java(wanted)} hasn't been registered in broker-set: {java(name)}"
        return SetDecision(missing, remark, answer)
    after = None
    replica = one.replicas[wanted]
    if address and address != replica.address:
        after = replace(one, replicas={**one.replicas, wanted: replace(replica, address=address)})
    now = one if after is None else after
    if now.master in living:
        answer.master_broker_id = now.master
        answer.master_address = now.address_of(now.master)
        answer.master_epoch = now.master_epoch
        answer.sync_state_set_epoch = now.in_sync_epoch
    return SetDecision(codes.SUCCESS, header=answer, body=in_sync_body(now), after=after)


def clean(one: ReplicaSet | None, living: Living, header: CleanControllerBrokerDataRequestHeader) -> SetDecision:
    """1011: forget replicas, or the whole set. Those that live only if the request says so.

    Where Java forgets the epochs of a set whose last replica in sync is removed, they stay here.
    """
    invalid = codes.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    name, listed = header.broker_name, header.broker_controller_ids_to_clean or ""
    try:
        ids = {int(text) for text in listed.split(";") if text.strip()}
    except ValueError:
        remark = f"Please set the option <brokerControllerIdsToClean> according to the format 1;2, not {listed[:80]}"
        return SetDecision(invalid, remark)
    if not header.is_clean_living_broker:
        if not ids and one is not None and one.master is not None:
            return SetDecision(invalid, f"Broker {name} is still alive, clean up failure")
        if alive := sorted(ids & living.keys()):
            return SetDecision(invalid, f"Broker [{name},  {alive[0]}] is still alive, clean up failure")
    if one is None or not one.replicas:
        return SetDecision(invalid, f"Broker {name} is not existed,clean broker data failure.")
    left = {broker_id: replica for broker_id, replica in one.replicas.items() if ids and broker_id not in ids}
    in_sync = tuple(broker_id for broker_id in one.in_sync if broker_id in left)
    after = replace(
        one,
        replicas=left,
        in_sync=in_sync,
        in_sync_epoch=one.in_sync_epoch + (in_sync != one.in_sync),
        master=one.master if one.master in left else None,
        master_epoch=one.master_epoch + (one.master is not None and one.master not in left),
        elected=one.elected and bool(left),
    )
    return SetDecision(codes.SUCCESS, after=None if after == one else after)


def read_ids(body: SyncStateSet) -> SyncStateSet:
    """The body of 1001, if it is one that can be answered. Raises BodyError."""
    if len(body.sync_state_set) > MOST_REPLICAS:
        raise BodyError(f"a set has at most {MOST_REPLICAS} replicas, not {len(body.sync_state_set)}")
    return body


def java(value: object) -> object:
    """A value as Java's remarks show it."""
    return "null" if value is None else value
