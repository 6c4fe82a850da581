"""The state of a cluster that users define, as one document for version control: topics, groups, users, policies,
offsets.

The document contains neither volatile data nor passwords, and uses RocketMQ's names. `read_declared` creates it, and
`bolide.admin.plan` compares it with a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, TypeVar

import msgspec

from bolide.access.policies import USER_PREFIX, AclInfo
from bolide.access.users import UserInfo
from bolide.admin.access import ACTIONS, USER_STATUSES, USER_TYPES
from bolide.admin.client import Admin
from bolide.client.messages.errors import ResponseError
from bolide.errors import ConfigError
from bolide.layout.limits import MAX_QUEUES
from bolide.layout.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    is_predefined_group,
    is_system_topic,
)
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from bolide.remoting.bodies.offsets import ConsumerOffsetSerializeWrapper
from bolide.remoting.bodies.topics import TopicConfig, TopicConfigSerializeWrapper, TopicFilterType, TopicList

VERSION: Final = 1
"""Version of the document's format."""
OFF: Final = (codes.SYSTEM_ERROR, codes.REQUEST_CODE_NOT_SUPPORTED)
"""Response codes of a broker without access control to queries of users."""

DEFAULT: Final = "Default "
"""Prefix of the resource of an entry in the default policy."""

T = TypeVar("T")
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_QUEUES)]


def _one_of(names: Iterable[str]) -> msgspec.Meta:
    return msgspec.Meta(pattern=f"^({'|'.join(names)})$")




class Declaration(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """Base class of all parts of the document."""


class DeclaredTopic(Declaration, frozen=True):
    """The settings of a topic at one broker."""

    read_queue_nums: Count
    write_queue_nums: Count
    perm: Annotated[int, msgspec.Meta(ge=0, le=7)] = 6
    order: bool = False
    topic_filter_type: Annotated[str, _one_of(TopicFilterType.__members__)] = "SINGLE_TAG"
    topic_sys_flag: int = 0
    attributes: dict[str, str] = {}


class DeclaredGroup(Declaration, frozen=True):
    """The settings of a group at one broker."""

    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: Count = 1
    retry_max_times: Annotated[int, msgspec.Meta(ge=-1)] = 16
    consume_timeout_minute: int = 15
    notify_consumer_ids_changed_enable: bool = True
    which_broker_when_consume_slowly: int = 1
    group_sys_flag: int = 0


class DeclaredUser(Declaration, frozen=True):
    """A user, without the password."""

    user_type: Annotated[str, _one_of(USER_TYPES)] = "Normal"
    user_status: Annotated[str, _one_of(USER_STATUSES)] = "enable"


class DeclaredEntry(Declaration, frozen=True):
    """Actions on a resource that a user is allowed or denied."""

    actions: list[Annotated[str, _one_of(ACTIONS)]]
    decision: Annotated[str, _one_of(("Allow", "Deny"))] = "Allow"
    source_ips: list[str] = []


class DeclaredBroker(Declaration, omit_defaults=True, frozen=True):
    """One broker. A section that is None is not managed. Offsets are by group, topic and queue."""

    topics: dict[str, DeclaredTopic] | None = None
    groups: dict[str, DeclaredGroup] | None = None
    users: dict[str, DeclaredUser] | None = None
    policies: dict[str, dict[str, DeclaredEntry]] | None = None
    offsets: dict[str, dict[str, dict[str, Annotated[int, msgspec.Meta(ge=0)]]]] | None = None


class Declared(Declaration, frozen=True):
    """The document."""

    bolide: Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION)]
    brokers: dict[str, DeclaredBroker]


def decode_declared(read: Any, place: str) -> Declared:
    """Convert parsed JSON or YAML to the document. Raises `ConfigError`,
    which names an unknown key and its location."""
    try:
        return msgspec.convert(read, Declared)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{place} is not what cluster export writes: {error}") from None


def encode_declared(declared: Declared) -> Any:
    """Return the document as built-in types in a stable order."""
    return _sorted(msgspec.to_builtins(declared))


def _sorted(value: Any) -> Any:
    return {key: _sorted(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


async def read_declared(admin: Admin, *, cluster: str | None = None, offsets: bool = False) -> Declared:
    """Read the current state of all masters, or only in `cluster`, without system topics and predefined groups."""
    answer = await admin.ask_namesrv(codes.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    hidden = frozenset(decode_answer(answer.body, TopicList).topic_list)
    brokers = {}
    for name, address in sorted((await admin.masters(cluster)).items()):
        topics = await admin.decoded(TopicConfigSerializeWrapper, address, codes.GET_ALL_TOPIC_CONFIG)
        groups = await admin.decoded(SubscriptionGroupWrapper, address, codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        users = await _of_access(admin, address, codes.AUTH_LIST_USER, list[UserInfo])
        acls = await _of_access(admin, address, codes.AUTH_LIST_ACL, list[AclInfo])
        brokers[name] = DeclaredBroker(
            {each: _topic(it) for each, it in topics.topic_config_table.items() if _is_users_topic(each, hidden)},
            {each: _group(it) for each, it in groups.subscription_group_table.items() if not is_predefined_group(each)},
            None if users is None else {each.username or "": _user(each) for each in users},
            None if acls is None else {_subject(each): entries_of(each) for each in acls},
            await _offsets(admin, address) if offsets else None,
        )
    return Declared(VERSION, brokers)


async def _of_access(admin: Admin, address: str, code: int, kind: type[list[T]]) -> list[T] | None:
    """Return users or policies, or None if access control is off."""
    try:
        answer = await admin.ask(address, code)
    except ResponseError as error:
        if error.code in OFF:
            return None
        raise
    return decode_answer(answer.body, kind) if answer.body else []


async def _offsets(admin: Admin, address: str) -> dict[str, dict[str, dict[str, int]]]:
    table = await admin.decoded(ConsumerOffsetSerializeWrapper, address, codes.GET_ALL_CONSUMER_OFFSET)
    found: dict[str, dict[str, dict[str, int]]] = {}
    for key, queues in table.offset_table.items():
        topic, _, group = key.partition("@")
        if queues and not is_predefined_group(group) and not is_system_topic(topic):
            places = {str(queue): max(offset, 0) for queue, offset in sorted(queues.items())}
            found.setdefault(group, {})[topic] = places
    return found


def _is_users_topic(name: str, hidden: frozenset[str]) -> bool:
    """Return whether users define the topic. Brokers create the retry and dead letter topics of a group."""
    return name not in hidden and not is_system_topic(name) and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _topic(config: TopicConfig) -> DeclaredTopic:
    return DeclaredTopic(
        config.read_queue_nums,
        config.write_queue_nums,
        config.perm,
        config.order,
        config.topic_filter_type.name,
        config.topic_sys_flag,
        config.attributes,
    )


def _group(config: SubscriptionGroupConfig) -> DeclaredGroup:
    return DeclaredGroup(**{name: getattr(config, name) for name in DeclaredGroup.__struct_fields__})


def _user(info: UserInfo) -> DeclaredUser:
    return DeclaredUser(info.user_type or "Normal", info.user_status or "enable")


def _subject(info: AclInfo) -> str:
    return (info.subject or "").removeprefix(USER_PREFIX)


def entries_of(info: AclInfo) -> dict[str, DeclaredEntry]:
    """Return entries by their resource. Entries of the default policy have the prefix `DEFAULT`."""
    return {
        (DEFAULT if policy.policy_type == "Default" else "") + (entry.resource or ""): DeclaredEntry(
            list(entry.actions or ()), entry.decision or "Allow", list(entry.source_ips or ())
        )
        for policy in info.policies
        for entry in policy.entries or ()
    }
