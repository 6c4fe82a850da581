"""Plans the changes that make a cluster match a document, for people to read, and applies them.

Deletes only if requested. Sections that are missing in the document are left unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from bolide.access.policies import USER_PREFIX, AclInfo, EntryInfo, PolicyInfo
from bolide.access.users import UserInfo
from bolide.admin.calls import ext_of
from bolide.admin.client import Admin
from bolide.admin.declared import (
    DEFAULT,
    Declared,
    DeclaredBroker,
    DeclaredEntry,
    DeclaredGroup,
    DeclaredTopic,
    DeclaredUser,
)
from bolide.admin.topics import ORDER_NAMESPACE
from bolide.admin.transient import repeated
from bolide.client.messages.errors import NoQueue
from bolide.errors import LocalError
from bolide.layout.names import AUTO_CREATE_TOPIC
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper

CREATE: Final = "create"
CHANGE: Final = "change"
DELETE: Final = "delete"
PATIENCE_S: Final = 30.0
"""Seconds for which a change is repeated while its server is unreachable or busy."""

K = TypeVar("K")


class PlanRefused(LocalError):
    """The document requires an impossible change. No change was made."""


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One change at one broker: `what` is topic, group, user, policy or offset; `before` and `after` are settings."""

    broker: str
    what: str
    name: str
    action: str
    before: Any = None
    after: Any = None

    @property
    def changes(self) -> str:
        """The differences, for people to read: from the previous settings, or from the defaults of a new object."""
        if self.action == DELETE:
            return ""
        old = _plain(self.before) if self.before is not None else {}
        usual = _usual(self.after) if self.before is None else {}
        return ", ".join(
            f"{key} {_text(old[key])} -> {_text(value)}" if key in old else f"{key} {_text(value)}"
            for key, value in _plain(self.after).items()
            if {**usual, **old}.get(key, _plain) != value
        )


def _plain(value: Any) -> dict[str, Any]:
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else {"offset": value}


def _usual(value: Any) -> dict[str, Any]:
    """Return the defaults of a new object."""
    if not isinstance(value, msgspec.Struct):
        return {}
    return {each.encode_name: each.default for each in msgspec.structs.fields(value) if not each.required} | {
        each.encode_name: each.default_factory()
        for each in msgspec.structs.fields(value)
        if each.default_factory is not msgspec.NODEFAULT
    }


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode().strip('"')


def plan(wanted: Declared, found: Declared, *, prune: bool = False) -> list[PlannedChange]:
    """Return the steps from `found` to `wanted`, in execution order. Raises `PlanRefused` if a step is impossible, and
    `NoQueue` for a broker that is not registered."""
    strange = sorted(set(wanted.brokers) - set(found.brokers))
    if strange:
        known = ", ".join(sorted(found.brokers))
        raise NoQueue(f"no master of {', '.join(strange)} is registered; known brokers: {known}")
    steps: list[PlannedChange] = []
    for name, want in sorted(wanted.brokers.items()):
        steps += _of_broker(name, want, found.brokers[name], prune)
    return sorted(steps, key=lambda step: step.action == DELETE)


def _of_broker(name: str, want: DeclaredBroker, have: DeclaredBroker, prune: bool) -> list[PlannedChange]:
    if have.users is None and (want.users or want.policies):
        raise PlanRefused(f"{name} has no access control, and the file has users or policies for it: leave them out")
    steps = _differences(name, "topic", want.topics, have.topics, prune)
    steps += _differences(name, "group", want.groups, have.groups, prune)
    users = _differences(name, "user", want.users, have.users, prune)
    missing = [step.name for step in users if step.action == CREATE]
    if missing:
        raise PlanRefused(
            f"{name} has no user {', '.join(missing)}, and the file has no passwords: run bolide user create"
        )
    left = {**(have.users or {}), **(want.users or {})}
    for step in users:
        if step.action == DELETE:
            del left[step.name]
    if users and not any(each == DeclaredUser("Super") for each in left.values()):
        raise PlanRefused(f"{name} would have no enabled Super user left: keep one, or no user could change it")
    flat = _differences(name, "policy", _flat(want.policies), _flat(have.policies), prune)
    unknown = sorted({step.name.partition(" ")[0] for step in flat if step.action != DELETE} - set(left))
    if unknown:
        raise PlanRefused(f"{name} has no user {', '.join(unknown)}, for whom the file has policies")
    gone = {step.name for step in users if step.action == DELETE}
    steps += [step for step in flat if step.name.partition(" ")[0] not in gone]  # deleted with the user
    return steps + users + _offsets(name, want, have)


def _flat(policies: Mapping[str, Mapping[str, DeclaredEntry]] | None) -> dict[str, DeclaredEntry] | None:
    """Return entries by user and resource; RocketMQ's user names contain no spaces."""
    if policies is None:
        return None
    return {f"{user} {resource}": entry for user, of_user in policies.items() for resource, entry in of_user.items()}


def _offsets(name: str, want: DeclaredBroker, have: DeclaredBroker) -> list[PlannedChange]:
    """Plan changes of offsets. Offsets are never deleted."""

    def flat(of: DeclaredBroker) -> dict[str, int]:
        return {
            f"{group} {topic} {queue}": offset
            for group, topics in (of.offsets or {}).items()
            for topic, queues in topics.items()
            for queue, offset in queues.items()
        }

    return _differences(name, "offset", flat(want), flat(have), False)


def _differences(
    broker: str, what: str, want: Mapping[str, object] | None, have: Mapping[str, object] | None, prune: bool
) -> list[PlannedChange]:
    if want is None:
        return []
    have = have or {}
    steps = [
        PlannedChange(broker, what, name, CHANGE if name in have else CREATE, have.get(name), after)
        for name, after in sorted(want.items())
        if have.get(name) != after
    ]
    if prune:
        steps += [PlannedChange(broker, what, name, DELETE, have[name]) for name in sorted(set(have) - set(want))]
    return steps


async def carry_out(
    admin: Admin,
    steps: Iterable[PlannedChange],
    found: Declared,
    told: Callable[[str], None] = lambda text: None,
    *,
    seconds: float = PATIENCE_S,
) -> int:
    """Apply the steps one after the other; return their number. Repeats a step for up to `seconds` while its server is
    unreachable or busy. Stops at an error, does not undo earlier steps, and calls `told` with their number."""
    masters = await admin.masters()
    count = 0
    steps = list(steps)
    orders = orders_after([step for step in steps if step.what == "topic"], found)
    try:
        for topic, order in orders.items():
            if not order:
                # Do this first: while the name servers have the order, a registration makes the topic ordered again.
                await repeated(partial(admin.delete_kv, ORDER_NAMESPACE, topic), seconds)
        for step in steps:
            await repeated(partial(_take, admin, masters[step.broker], step, found), seconds)
            count += 1
        for topic, order in orders.items():
            if order:
                await repeated(partial(admin.put_kv, ORDER_NAMESPACE, topic, order), seconds)
    except BaseException:
        told(f"{count} of {len(steps)} changes are done: run this command again for the rest")
        raise
    return count


def orders_after(steps: list[PlannedChange], found: Declared) -> dict[str, str]:
    """Return the name servers' entry of each ordered topic that the steps change:
    its brokers with their number of queues."""
    orders = {}
    for topic in sorted({step.name for step in steps}):
        after = {name: (broker.topics or {}).get(topic) for name, broker in found.brokers.items()}
        was_ordered = any(each is not None and each.order for each in after.values())
        after.update({step.broker: step.after for step in steps if step.name == topic})
        ordered = {name: each.write_queue_nums for name, each in after.items() if each is not None and each.order}
        if ordered or was_ordered:
            orders[topic] = ";".join(f"{name}:{number}" for name, number in sorted(ordered.items()))
    return orders


async def _take(admin: Admin, address: str, step: PlannedChange, found: Declared) -> None:
    if step.what == "topic":
        await _take_topic(admin, address, step, found)
    elif step.what == "group":
        await _take_group(admin, address, step)
    elif step.what == "user":
        await _take_user(admin, address, step)
    elif step.what == "policy":
        await _take_policy(admin, address, step)
    else:
        group, topic, queue = step.name.split(" ")
        ext = ext_of(consumerGroup=group, topic=topic, queueId=queue, commitOffset=step.after, bname=step.broker)
        await admin.ask(address, codes.UPDATE_CONSUMER_OFFSET, ext)


async def _take_topic(admin: Admin, address: str, step: PlannedChange, found: Declared) -> None:
    if step.action == DELETE:
        await admin.ask(address, codes.DELETE_TOPIC_IN_BROKER, ext_of(topic=step.name))
        elsewhere = [name for name, broker in found.brokers.items() if step.name in (broker.topics or {})]
        if elsewhere == [step.broker]:
            await admin.tell_every_namesrv(codes.DELETE_TOPIC_IN_NAMESRV, ext_of(topic=step.name))
        return
    after: DeclaredTopic = step.after
    before: dict[str, str] = {} if step.before is None else step.before.attributes
    changed = [f"+{key}={value}" for key, value in sorted(after.attributes.items()) if before.get(key) != value]
    changed += [f"-{key}" for key in sorted(set(before) - set(after.attributes))]
    ext = ext_of(
        topic=step.name,
        defaultTopic=AUTO_CREATE_TOPIC,
        readQueueNums=after.read_queue_nums,
        writeQueueNums=after.write_queue_nums,
        perm=after.perm,
        topicFilterType=after.topic_filter_type,
        topicSysFlag=after.topic_sys_flag,
        order=after.order,
        attributes=",".join(changed) or None,
        force=False,
    )
    await admin.ask(address, codes.UPDATE_AND_CREATE_TOPIC, ext)


async def _take_group(admin: Admin, address: str, step: PlannedChange) -> None:
    if step.action == DELETE:
        ext = ext_of(groupName=step.name, cleanOffset=False, removeOffset=False)
        await admin.ask(address, codes.DELETE_SUBSCRIPTIONGROUP, ext)
        return
    after: DeclaredGroup = step.after
    told = await admin.decoded(SubscriptionGroupWrapper, address, codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    before = told.subscription_group_table.get(step.name) or SubscriptionGroupConfig(group_name=step.name)
    config = msgspec.structs.replace(before, **msgspec.structs.asdict(after))
    await admin.ask(address, codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(config))


async def _take_user(admin: Admin, address: str, step: PlannedChange) -> None:
    ext = {"username": step.name}
    if step.action == DELETE:
        await admin.ask(address, codes.AUTH_DELETE_USER, ext)
        return
    after: DeclaredUser = step.after
    info = UserInfo(step.name, None, after.user_type, after.user_status)
    await admin.ask(address, codes.AUTH_UPDATE_USER, ext, encode_body(info))


async def _take_policy(admin: Admin, address: str, step: PlannedChange) -> None:
    user, _, resource = step.name.partition(" ")
    kind = "Default" if resource.startswith(DEFAULT) else "Custom"
    resource = resource.removeprefix(DEFAULT)
    subject = USER_PREFIX + user
    if step.action == DELETE:
        ext = ext_of(subject=subject, policyType=kind, resource=resource)
        await admin.ask(address, codes.AUTH_DELETE_ACL, ext)
        return
    after: DeclaredEntry = step.after
    entry = EntryInfo(resource, list(after.actions), list(after.source_ips) or None, after.decision)
    info = AclInfo(subject, [PolicyInfo(kind, [entry])])
    await admin.ask(address, codes.AUTH_CREATE_ACL, {"subject": subject}, encode_body(info))
