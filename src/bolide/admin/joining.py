"""Replicas that join and leave a set: the settings for joining, the wait for replication,
and the check before leaving."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from bolide.admin.client import Admin
from bolide.admin.cluster import MemberRow
from bolide.admin.transient import is_transient
from bolide.client.messages.errors import NoQueue
from bolide.errors import BolideError, LocalError
from bolide.layout.names import MASTER_ID

LOOK_S: Final = 1.0
_SHARED: Final = (
    "brokerClusterName", "brokerName", "namesrvAddr", "enableControllerMode", "controllerAddr", "flushDiskType",
    "mappedFileSizeCommitLog", "inSyncReplicas", "minInSyncReplicas", "allAckInSyncStateSet", "slaveReadEnable",
    "enableSlaveActingMaster", "totalReplicas", "haTlsEnable", "tlsEnable", "authenticationEnabled",
    "authorizationEnabled", "aclEnable",
)  # fmt: skip
"""Settings that the brokers of a set share, by the keys of broker.conf."""


class NotJoined(LocalError):
    """A replica is not in sync after the time limit, or may not leave."""


async def settings_to_join(admin: Admin, broker_set: str) -> dict[str, str]:
    """Return the lines of broker.conf for another broker of a set, from the settings of its master. Paths, ports and
    certificates depend on the new machine. Raises `NoQueue` if the set has no master."""
    address = (await admin.masters(broker=broker_set))[broker_set]
    found = await admin.broker_config(address)
    lines = {key: found[key] for key in _SHARED if found.get(key, "") not in ("", "false")}
    if found.get("enableSlaveActingMaster") != "true":
        lines.pop("totalReplicas", None)
    if found.get("enableControllerMode") != "true":
        data = (await admin.cluster_info()).broker_addr_table[broker_set]
        lines["brokerRole"] = "SLAVE"
        lines["brokerId"] = str(next(number for number in range(1, 1 << 16) if number not in data.broker_addrs))
    return lines


async def behind(admin: Admin, broker_set: str, broker_id: int) -> int:
    """Return a replica's lag in bytes, or -1 while it is not registered, or not in sync at its controller.

    `broker_id` is the id from the set's controller, or without a controller the id in its settings.
    """
    data = (await admin.cluster_info()).broker_addr_table.get(broker_set)
    addresses = {} if data is None else data.broker_addrs
    members = await controlled_members(admin, broker_set)
    member = next((each for each in members if each.broker_id == broker_id), None)
    address = addresses.get(broker_id, "") if not members else "" if member is None else member.address
    if MASTER_ID not in addresses or address not in addresses.values():
        return -1
    try:
        # Query the master first: messages that arrive between the queries must not add to the lag.
        end = int((await admin.broker_runtime(addresses[MASTER_ID]))["commitLogMaxOffset"])
        lacks = max(end - int((await admin.broker_runtime(address))["commitLogMaxOffset"]), 0)
    except (BolideError, KeyError, ValueError):
        return -1
    return lacks if lacks or member is None or (member.alive and member.in_sync) else -1


async def controlled_members(admin: Admin, broker_set: str) -> list[MemberRow]:
    """Return the set's members at its controller, or [] without a controller."""
    try:
        return await admin.members(broker_set)
    except NoQueue:
        return []


async def joined(
    admin: Admin,
    broker_set: str,
    broker_id: int,
    seconds: float,
    told: Callable[[int], None],
    failed: Callable[[BolideError], None] = lambda error: None,
) -> None:
    """Wait until a replica is caught up. Calls `told` with its lag in bytes at every check, -1 if unknown, or `failed`
    with the error of a request that is repeated.

    Raises `NotJoined` after `seconds`, and immediately the error of a request that cannot succeed later, or that no
    name server received.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    await admin.cluster_info()  # a wrong address ends the wait
    while True:
        try:
            lacks = await behind(admin, broker_set, broker_id)
        except BolideError as error:
            if not is_transient(error):
                raise
            how = f"cannot be checked ({error})"
            failed(error)
        else:
            if lacks == 0:
                return
            how = f"lacks {lacks:,} bytes of the log" if lacks > 0 else "is not registered, or not in sync"
            told(lacks)
        if loop.time() >= end:
            raise NotJoined(
                f"{broker_set}: replica {broker_id} {how} after {seconds:g} s: look into its log, and run this command "
                f"again to wait longer"
            )
        await asyncio.sleep(LOOK_S)


def may_leave(broker_set: str, members: Collection[MemberRow], broker_id: int) -> str:
    """Return a sentence about messages that are lost if the set continues without a replica, or "".

    Raises `NoQueue` if the replica does not exist, and `NotJoined` for the master or a broker that is alive.
    """
    chosen = next((each for each in members if each.broker_id == broker_id), None)
    if chosen is None:
        known = ", ".join(str(each.broker_id) for each in members) or "none"
        raise NoQueue(f"{broker_set} has no broker with the id {broker_id}: it has {known}")
    if chosen.master:
        raise NotJoined(f"{broker_id} is the master of {broker_set}: hand it over first, with bolide cluster switch")
    if chosen.alive:
        raise NotJoined(f"{broker_id} ({chosen.address}) is alive: stop it first")
    if not chosen.in_sync or any(each.master for each in members):
        return ""
    others = [each for each in members if each.in_sync and each is not chosen]
    text = f"{broker_id} was in sync when {broker_set} lost its master: what only its log has is lost"
    if not others:
        others = [each for each in members if each is not chosen]
        text += "; no other replica is in sync, so choose the next master by name, with bolide cluster switch"
    reached = max((each.log_end for each in others if each.alive), default=-1)
    if chosen.confirmed < 0:
        return text
    text += f"; the set confirmed messages up to {chosen.confirmed:,}, and "
    if reached < 0:
        return f"{text}no other replica is alive"
    return f"{text}the others reach {reached:,}: {max(chosen.confirmed - reached, 0):,} bytes"
