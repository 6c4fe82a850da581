"""Decisions about a broker set, one function per request code (ReplicasInfoManager.java).

Each of these functions takes the stored set, or None if there is none, and returns a `SetDecision`. Most also take the
live replicas of the set. Arguments are not modified.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from bolide.controller.election import Choice, ElectionWait, Living, Terms, elect
from bolide.controller.liveness import steady
from bolide.controller.replica_set import FIRST_ID, Office, Replica, ReplicaSet
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
from bolide.remoting.replica_claims import NO_CLAIMS, NOT_KNOWN, Claims

HIGHEST_ID: Final = 1 << 53
MOST_REPLICAS: Final = 128
"""Maximum number of replicas of a set. Every decision writes all of them."""


class SetDecision(NamedTuple):
    """Response to a request, and the set after it: None if the set does not change."""

    code: int
    remark: str | None = None
    header: Header | None = None
    body: Body | None = None
    after: ReplicaSet | None = None
    new_master: bool = False
    """Whether to notify the live replicas of the master."""
    waits: ElectionWait | None = None
    """Reason why an election has not finished."""


Decide = Callable[[ReplicaSet | None, int], SetDecision]
"""Takes the stored set, or None, and the time in ms. Returns the decision."""


def known(one: ReplicaSet | None) -> bool:
    """Return whether a set has replicas. A set that was removed has none."""
    return one is not None and bool(one.replicas)


def in_sync_body(one: ReplicaSet) -> SyncStateSet:
    """Return the in-sync set in the form that brokers receive."""
    return SyncStateSet(list(one.in_sync), one.in_sync_epoch)


def alter_in_sync(
    one: ReplicaSet | None, living: Living, header: AlterSyncStateSetRequestHeader, body: SyncStateSet, life: str = ""
) -> SetDecision:
    """1001: change the in-sync set at the request of its master. Makes Java's checks in Java's order.

    `life`: token of the requesting broker. A broker with an outdated token is rejected.
    """
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
    elif stranger := stranger_as(one, one.master, life):
        code, why = codes.CONTROLLER_INVALID_MASTER, stranger
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
    after = replace(
        one,
        in_sync=tuple(sorted(wanted)),
        in_sync_epoch=one.in_sync_epoch + 1,
        former=(),
        replicas=one.with_joined(*wanted - set(one.in_sync)),
    )
    answer = AlterSyncStateSetResponseHeader(new_sync_state_set_epoch=after.in_sync_epoch)
    return SetDecision(codes.SUCCESS, header=answer, body=in_sync_body(after), after=after)


def elect_master(
    one: ReplicaSet | None, living: Living, asking: int | None, terms: Terms, life: str | None = None
) -> SetDecision:
    """1002: elect a master if no master is alive, or elect the replica that an operator designates.

    `asking`: id of the requesting or designated broker, or None if the controller has noticed that the master failed.
    `life`: token of the requesting broker, or None if the controller or an operator requests the election.
    """
    if one is None or not one.replicas:
        return SetDecision(codes.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "Broker hasn't been registered")
    if life is not None and asking is not None and (stranger := stranger_as(one, asking, life)):
        return SetDecision(codes.CONTROLLER_INVALID_REQUEST, stranger)
    if asking is not None and not one.elected:
        if asking not in one.replicas:
            remark = f"BrokerId: {asking} hasn't been registered in broker-set: {one.name}"
            return SetDecision(codes.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark)
        choice = Choice(asking)
    else:
        choice = elect(one, living, terms)
    found = choice.master
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
            former=_former(one, found),
            replicas=one.with_joined(found),
            office=_office(one, living, found, terms),
        )
        return SetDecision(codes.SUCCESS, None, _master_header(after), election_body(after), after, new_master=True)
    waits = "" if choice.waits is None else f": {waiting(one, choice.waits)}"
    if asking is not None:
        remark = f"Failed to elect a new master{waits}"
        return SetDecision(codes.CONTROLLER_ELECT_MASTER_FAILED, remark, waits=choice.waits)
    gone = None if one.master is None else _without_master(one)
    remark = f"Old master has down and failed to elect a new broker master{waits}"
    return SetDecision(codes.CONTROLLER_MASTER_NOT_AVAILABLE, remark, after=gone, waits=choice.waits)


def _former(one: ReplicaSet, found: int) -> tuple[int, ...]:
    """Return the members that remain electable until the new master takes office. Empty if the new master is a
    RocketMQ broker, which does not report that it takes office."""
    if found not in one.electable or len(one.electable) == 1 or not one.replicas[found].life:
        return ()
    return one.electable


def _without_master(one: ReplicaSet) -> ReplicaSet:
    return replace(one, master=None, master_epoch=one.master_epoch + 1)


def _office(one: ReplicaSet, living: Living, found: int, terms: Terms) -> Office:
    """Return the office of a new master. If its log may be incomplete, the confirmed offset is at most the end of that
    log."""
    heartbeat = living.get(found)
    confirmed = terms.confirmed
    if heartbeat is not None and not steady(one, found, heartbeat):
        confirmed = min(confirmed, heartbeat.max_offset)
    return Office(found, one.master_epoch + 1, confirmed, terms.synced)


def noted(one: ReplicaSet, office: Office | None) -> ReplicaSet:
    """Return the set with this office, or the set itself if its office is the same or newer, or if it has no
    replicas."""
    if office is None or not one.replicas:
        return one
    kept = one.office
    if kept is not None and (kept.epoch, kept.confirmed) >= (office.epoch, office.confirmed):
        return one
    return replace(one, office=office)


def waiting(one: ReplicaSet, waits: ElectionWait) -> str:
    """Return a text that explains why an election waits and what an operator can do."""
    members = ", ".join(f"{broker_id} ({one.address_of(broker_id)})" for broker_id in waits.missing)
    text = f"the election waits for {members or 'an operator'}"
    if waits.short_of != NOT_KNOWN:
        text += f", because no log that is here reaches {waits.short_of}, up to where the set confirmed messages"
    return (
        f"{text}; start these brokers, or give them up with bolide cluster leave {one.name} --id ID --controller ..., "
        f"or choose a master with bolide cluster switch {one.name} --to ID --controller ..."
    )


def stranger_as(one: ReplicaSet, broker_id: int | None, life: str) -> str:
    """Return why a request with the token `life` is not from this replica, or "" if it is."""
    replica = None if broker_id is None else one.replicas.get(broker_id)
    if replica is None or replica.life in ("", life):
        return ""
    if not life:
        return (
            f"replica {broker_id} of {one.name} registered with a token, and this broker sends none, as RocketMQ's and "
            f"older releases of Bolide do: for a downgrade, downgrade the controllers first; else move its files "
            f"brokerIdentity* and its log away, and it joins as a new replica"
        )
    return (
        f"replica {broker_id} of {one.name} last registered from another start of its broker, at {replica.address}: "
        f"this store is a copy of that one or an older state of it; move its files brokerIdentity* and its log away, "
        f"and it joins as a new replica"
    )


def election_body(one: ReplicaSet) -> ElectMasterResponseBody:
    """Return all replicas of a set and its in-sync set."""
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
    """1012: return the id that a new broker may apply for."""
    return FIRST_ID if one is None else one.next_id


def apply_id(
    one: ReplicaSet | None, header: ApplyBrokerIdRequestHeader, cluster: str, name: str, check_code: str
) -> SetDecision:
    """1013: assign an id to a broker unless it is taken. A request with the same check code gets the same id again."""
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
        # The id belonged to a removed replica with possibly another log. RocketMQ assigns any free id.
        return SetDecision(invalid, f"Fail to apply brokerId: {wanted} in broker-set: {name}", answer)
    if len(before.replicas) >= MOST_REPLICAS:
        remark = f"the broker-set {name} has {MOST_REPLICAS} replicas already: clean those that are gone"
        return SetDecision(codes.SYSTEM_ERROR, remark, answer)
    replica = Replica(check_code.partition(";")[0], check_code, fresh=True)
    after = replace(
        before,
        cluster=before.cluster if before.replicas else cluster,
        next_id=wanted + 1,
        replicas={**before.replicas, wanted: replica},
    )
    return SetDecision(codes.SUCCESS, header=answer, after=after)


def not_a_sign_of(one: ReplicaSet, broker_id: int, address: str, life: str) -> str:
    """Return why a heartbeat is not valid for this replica, or "" if it is valid or there is no such replica."""
    replica = one.replicas.get(broker_id)
    if replica is not None and replica.address != address:
        return f"replica {broker_id} of {one.name} is at {replica.address}, not at {address[:80]}"
    return stranger_as(one, broker_id, life)


def leads(one: ReplicaSet, broker_id: int, claims: Claims) -> bool:
    """Return whether a broker that claims to be the master of an epoch is the master of the current one. Its token was
    checked by `not_a_sign_of`. A broker of RocketMQ has no token and claims nothing."""
    replica = one.replicas.get(broker_id)
    current = (one.master, one.master_epoch) == (broker_id, claims.leads)
    return current and replica is not None and replica.life != ""


def register(
    one: ReplicaSet | None, living: Living, header: RegisterBrokerToControllerRequestHeader, claims: Claims = NO_CLAIMS
) -> SetDecision:
    """1003: store the address of a broker. The response contains the master of the set if that is alive.

    An id belongs to one address at a time, and to the store that last registered with it.
    """
    name, wanted, address = header.broker_name, header.broker_id, header.broker_address
    answer = RegisterBrokerToControllerResponseHeader(cluster_name=header.cluster_name, broker_name=name)
    missing = codes.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    if one is None or not one.replicas:
        return SetDecision(missing, f"Broker-set: {java(name)} hasn't been registered in controller", answer)
    if wanted is None or wanted not in one.replicas:
        remark = f"BrokerId: {java(wanted)} hasn't been registered in broker-set: {java(name)}"
        return SetDecision(missing, remark, answer)
    replica = one.replicas[wanted]
    if claims.before != replica.life and (stranger := stranger_as(one, wanted, claims.life)):
        return SetDecision(codes.CONTROLLER_BROKER_ID_INVALID, stranger, answer)
    if address and address != replica.address and wanted in living:
        remark = (
            f"replica {wanted} of {one.name} lives at {replica.address}, so the broker at {address} cannot be it: stop "
            f"one of them, and if this store is a copy, move its files brokerIdentity* and its log away"
        )
        return SetDecision(codes.CONTROLLER_BROKER_ID_INVALID, remark, answer)
    if claims.leads != NOT_KNOWN:
        return _take_office(one, wanted, claims, answer)
    started = not claims.life or claims.life != replica.life
    now_is = replace(replica, address=address or replica.address, life=claims.life or replica.life, fresh=False)
    after = None if now_is == replica else replace(one, replicas={**one.replicas, wanted: now_is})
    if wanted == one.master and started:
        # A master that registers has restarted. It may have lost a part of its log, so it must be elected again.
        after = _without_master(after or one)
    elif one.master is not None and started and not replica.fresh:
        # A request of the master that is still in flight may rely on bytes that this broker lost at its restart.
        after = replace(after or one, in_sync_epoch=one.in_sync_epoch + 1)
    now = one if after is None else after
    if now.master in living:
        answer.master_broker_id = now.master
        answer.master_address = now.address_of(now.master)
        answer.master_epoch = now.master_epoch
        answer.sync_state_set_epoch = now.in_sync_epoch
    return SetDecision(codes.SUCCESS, header=answer, body=in_sync_body(now), after=after)


def _take_office(
    one: ReplicaSet, master: int, claims: Claims, answer: RegisterBrokerToControllerResponseHeader
) -> SetDecision:
    """1003 from a replica that takes office as the master of an epoch. The members of the set before its election are
    no longer electable after this."""
    if (one.master, one.master_epoch) != (master, claims.leads):
        remark = f"replica {master} of {one.name} is not the master of epoch {claims.leads}"
        return SetDecision(codes.CONTROLLER_INVALID_MASTER, remark, answer)
    after = noted(replace(one, former=()), Office(master, claims.leads, claims.confirmed, claims.synced))
    return SetDecision(codes.SUCCESS, header=answer, body=in_sync_body(one), after=None if after == one else after)


def clean(one: ReplicaSet | None, living: Living, header: CleanControllerBrokerDataRequestHeader) -> SetDecision:
    """1011: remove replicas or the whole set. Removes live replicas only if the request allows it.

    Java drops the epochs of a set when its last in-sync replica is removed. Bolide keeps them.
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
        former=tuple(broker_id for broker_id in one.former if broker_id in left),
        master=one.master if one.master in left else None,
        master_epoch=one.master_epoch + (one.master is not None and one.master not in left),
        elected=one.elected and bool(left),
        office=one.office if left else None,
    )
    return SetDecision(codes.SUCCESS, after=None if after == one else after)


def read_ids(body: SyncStateSet) -> SyncStateSet:
    """Return the body of a 1001 request. Raises `BodyError` if it has more than `MOST_REPLICAS` replicas."""
    if len(body.sync_state_set) > MOST_REPLICAS:
        raise BodyError(f"a set has at most {MOST_REPLICAS} replicas, not {len(body.sync_state_set)}")
    return body


def java(value: object) -> object:
    """Return a value as Java formats it in remarks."""
    return "null" if value is None else value
