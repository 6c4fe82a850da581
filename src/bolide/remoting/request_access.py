"""The permissions that a request needs: the column `access` of its row (docs/protocol/acl.md 5).

An `Access` is declared with the handler of a code, using the header fields that the handler reads, so that check and
handler use the same decoder. `bolide.access` decides who has which permission.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from bolide.layout.names import RETRY_PREFIX
from bolide.remoting.bodies.base import decode_body
from bolide.remoting.bodies.clients import CheckClientRequestBody, HeartbeatData
from bolide.remoting.bodies.locks import LockBatchRequestBody
from bolide.remoting.bodies.query import QueryAssignmentRequestBody
from bolide.remoting.command import Command
from bolide.remoting.headers.base import Header
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.send import SendMessageRequestHeaderV2


class ResourceType(enum.IntEnum):
    """The kind of object that a permission is for (ResourceType.java)."""

    ANY = 1
    CLUSTER = 2
    NAMESPACE = 3
    TOPIC = 4
    GROUP = 5


class Action(enum.IntEnum):
    """The operation on the object (Action.java)."""

    ALL = 1
    ANY = 2
    PUB = 3
    SUB = 4
    CREATE = 5
    UPDATE = 6
    DELETE = 7
    GET = 8
    LIST = 9


class Asked(NamedTuple):
    """One of `actions` on one object must be allowed. For the broker's cluster, `name` is ""."""

    kind: ResourceType
    name: str
    actions: tuple[Action, ...]


class AskedField(Struct, frozen=True):
    """A header field that names a topic or group.

    A topic %RETRY%group stands for that group, with the actions `retried`. If `retried` is None, it is an ordinary
    topic. A field without a value needs no permission.
    """

    kind: ResourceType
    name: str
    actions: tuple[Action, ...]
    retried: tuple[Action, ...] | None = None
    separator: str = ""
    """Separator of several names in one value, or "" for one name."""

    def asked(self, name: str) -> Asked:
        """Return the permission needed for the topic or group with this name."""
        if self.kind is ResourceType.GROUP:
            return group(name, self.actions)
        return topic(name, self.actions, self.retried)


class AskedTopic(Struct, frozen=True):
    """A permission for a topic. `retried` has the same meaning as in `AskedField`."""

    actions: tuple[Action, ...]
    retried: tuple[Action, ...] | None

    def asked(self, name: str) -> Asked:
        """Return the permission needed for the topic with this name."""
        return topic(name, self.actions, self.retried)


OfBody = Callable[[Command], Iterable[Asked]]


class Access(Struct, frozen=True):
    """All permissions that a code needs."""

    fields: tuple[AskedField, ...] = ()
    body: OfBody | None = None
    cluster: tuple[Action, ...] = ()
    """Actions on the cluster that are needed unless a field names an object."""
    found: AskedTopic | None = None
    """The actions on a topic that the handler finds and the request does not name; see `bolide.broker.found`."""
    strict: Access | None = None
    """The permissions needed with authorizationStrict, where RocketMQ checks less than the code can do."""
    acl_1: Access | None = None
    """The permissions needed with aclEnable (docs/protocol/acl.md 2); the cluster needs an admin. If None, a signature
    is enough, unless authorizationStrict requires an admin or a check of found objects."""

    def in_force(self, strict: bool) -> Access:
        """Return the access that a broker requires: `strict` is its authorizationStrict."""
        return self.strict if strict and self.strict is not None else self

    def in_acl_1(self, strict: bool) -> Access:
        """Return the access that a broker with aclEnable requires."""
        if self.acl_1 is not None:
            return self.acl_1.in_force(strict)
        full = self.in_force(True)
        return Access(cluster=full.cluster, found=full.found) if strict else Access()

    def asked(self, command: Command, header: type[Header] | None) -> list[Asked]:
        """Return the permissions that this request needs. Raises `HeaderError` or `BodyError` if it is invalid."""
        found: list[Asked] = []
        if self.fields and header is not None:
            read = decode_header(command, header)
            for field in self.fields:
                value = getattr(read, field.name)
                if value:
                    names = value.split(field.separator) if field.separator else [value]
                    found += [one for one in map(field.asked, filter(None, names)) if one.actions]
        if self.body is not None:
            found += self.body(command)
        if self.cluster and not found:
            found.append(Asked(ResourceType.CLUSTER, "", self.cluster))
        return list(dict.fromkeys(found))


def group(name: str, actions: tuple[Action, ...]) -> Asked:
    """Return the permission for a group, which may be given by its retry topic."""
    return Asked(ResourceType.GROUP, name.removeprefix(RETRY_PREFIX), actions)


def topic(name: str, actions: tuple[Action, ...], retried: tuple[Action, ...] | None) -> Asked:
    """Return the permission for a topic with these actions. `retried` has the same meaning as in `AskedField`."""
    if name.startswith(RETRY_PREFIX) and retried is not None:
        return group(name, retried)
    return Asked(ResourceType.TOPIC, name, actions)


def _subscriptions(consumer_group: str, topics: Iterable[str]) -> list[Asked]:
    return [group(consumer_group, SUB), *(topic(name, SUB, SUB) for name in topics)]


def _of_heartbeat(command: Command) -> list[Asked]:
    data = decode_body(command.body, HeartbeatData)
    return [
        asked
        for consumer in data.consumer_data_set
        for asked in _subscriptions(consumer.group_name, [item.topic for item in consumer.subscription_data_set])
    ]


def _of_send(command: Command) -> list[Asked]:
    """ACL 1 checks the group of the producer, not the group of the retry topic."""
    header = decode_header(command, SendMessageRequestHeaderV2)
    if header.topic.startswith(RETRY_PREFIX):
        return [group(header.producer_group, SUB)]
    return [topic(header.topic, PUB, None)]


def _of_locks(command: Command) -> list[Asked]:
    data = decode_body(command.body, LockBatchRequestBody)
    return _subscriptions(data.consumer_group, list(dict.fromkeys(queue.topic for queue in data.mq_set)))


def _of_assignment(command: Command) -> list[Asked]:
    data = decode_body(command.body, QueryAssignmentRequestBody)
    return _subscriptions(data.consumer_group, [data.topic])


def _of_client_check(command: Command) -> list[Asked]:
    if not command.body:
        return []  # no subscription to check
    data = decode_body(command.body, CheckClientRequestBody)
    return _subscriptions(data.group, [data.subscription_data.topic])


def _topic(name: str, *actions: Action) -> AskedField:
    return AskedField(ResourceType.TOPIC, name, actions, actions)


def _group(name: str, *actions: Action) -> AskedField:
    return AskedField(ResourceType.GROUP, name, actions)


def _in_acl_1(access: Access) -> Access:
    """Return this access for both kinds of access control."""
    return replace(access, acl_1=access)


PUB: Final = (Action.PUB,)
SUB: Final = (Action.SUB,)
GET: Final = (Action.GET,)
UPDATE: Final = (Action.UPDATE,)
GET_CLUSTER: Final = Access(cluster=GET)
UPDATE_CLUSTER: Final = Access(cluster=UPDATE)
SIGNED_GET: Final = Access(strict=GET_CLUSTER)
SIGNED_UPDATE: Final = Access(strict=UPDATE_CLUSTER)
ADMINISTER: Final = Access(strict=UPDATE_CLUSTER, acl_1=UPDATE_CLUSTER)
_SEND: Final = (AskedField(ResourceType.TOPIC, "topic", PUB, SUB),)
_SEND_V1: Final = (AskedField(ResourceType.TOPIC, "topic", PUB, ()),)
"""ACL 1 does not check sends to retry topics in the old form."""
_PUBLISHED: Final = AskedTopic(PUB, SUB)
_CONSUMED: Final = AskedTopic(SUB, SUB)
_UPDATED: Final = AskedTopic(UPDATE, UPDATE)
_STRICT_SEND: Final = Access(_SEND, found=_PUBLISHED)
"""Found objects: the light queues that a message lists. RocketMQ checks only the topic."""
PUBLISH_V1: Final = Access(_SEND, strict=_STRICT_SEND, acl_1=Access(_SEND_V1, strict=_STRICT_SEND))
PUBLISH: Final = Access(_SEND, strict=_STRICT_SEND, acl_1=Access(body=_of_send, strict=_STRICT_SEND))
REPLY: Final = Access(strict=_STRICT_SEND)
PUBLISH_BATCH: Final = Access(_SEND, strict=_STRICT_SEND, acl_1=REPLY)
RECALL: Final = Access((AskedField(ResourceType.TOPIC, "topic", PUB),))
END: Final = Access((AskedField(ResourceType.TOPIC, "topic", PUB),), found=_PUBLISHED)
"""The handler checks the topic of the half message, because clients of 4.9 do not send it."""
SEND_BACK: Final = _in_acl_1(Access((_group("group", Action.SUB),), found=_CONSUMED))
PULL: Final = _in_acl_1(Access((_topic("topic", Action.SUB), _group("consumer_group", Action.SUB))))
LITE_PULL: Final = _in_acl_1(Access(strict=PULL))
_READ: Final = (Action.SUB, Action.GET)
QUERY: Final = _in_acl_1(Access((AskedField(ResourceType.TOPIC, "topic", _READ),), found=AskedTopic(_READ, _READ)))
"""Found objects: messages of other topics whose key has the same hash."""
VIEW: Final = Access((_topic("topic", Action.GET),), found=AskedTopic(GET, GET))
HEARTBEAT: Final = _in_acl_1(Access(body=_of_heartbeat, found=_PUBLISHED))
"""Found objects: half messages in the checks (39) that the broker sends to a producer of this heartbeat."""
ASSIGNMENT: Final = Access(strict=Access(body=_of_assignment))
CLIENT_CHECK: Final = Access(strict=Access(body=_of_client_check))
LOCKS: Final = Access(body=_of_locks)
LEAVE: Final = _in_acl_1(Access((_group("consumer_group", Action.SUB),)))
MEMBERS: Final = _in_acl_1(Access((_group("consumer_group", Action.SUB, Action.GET),)))
READ_OFFSET: Final = Access((_topic("topic", Action.SUB, Action.GET), _group("consumer_group", Action.SUB, Action.GET)))
COMMIT_OFFSET: Final = _in_acl_1(
    Access((_topic("topic", Action.SUB, Action.UPDATE), _group("consumer_group", Action.SUB, Action.UPDATE)))
)
RESUME: Final = Access((_topic("topic", Action.UPDATE),), found=_UPDATED)
CREATE_TOPIC: Final = Access((_topic("topic", Action.CREATE),), acl_1=UPDATE_CLUSTER)
DELETE_TOPIC: Final = Access((_topic("topic", Action.DELETE),), acl_1=UPDATE_CLUSTER)
UPDATE_TOPIC: Final = Access((_topic("topic", Action.UPDATE),))
GET_TOPIC: Final = Access((_topic("topic", Action.GET),))
DELETE_GROUP: Final = Access((_group("group_name", Action.DELETE),), acl_1=UPDATE_CLUSTER)
GET_CONSUMER_GROUP: Final = Access((_group("consumer_group", Action.GET),))
GET_GROUP: Final = Access((_group("group", Action.GET),))
GET_TOPIC_AND_GROUP: Final = Access((_topic("topic", Action.GET), _group("group", Action.GET)))
GET_GROUP_AND_TOPIC: Final = Access((_group("group", Action.GET), _topic("topic", Action.GET)))
UPDATE_GROUP_AND_TOPIC: Final = Access((_group("group", Action.UPDATE), _topic("topic", Action.UPDATE)))
_CLONED: Final = (_group("dest_group", Action.UPDATE), _topic("topic", Action.UPDATE))
CLONE_OFFSETS: Final = Access(
    _CLONED, found=_UPDATED, strict=Access((*_CLONED, _group("src_group", Action.GET)), found=_UPDATED)
)
"""The handler checks the topics of the source group if the request does not contain a topic."""
GET_CONSUME_STATS: Final = Access(
    (
        _group("consumer_group", Action.GET),
        _topic("topic", Action.GET),
        AskedField(ResourceType.TOPIC, "topic_list", GET, GET, ";"),
    )
)
GET_CONSUME_QUEUE: Final = Access((_topic("topic", Action.GET), _group("consumer_group", Action.GET)))
CORRECT_OFFSETS: Final = Access(
    (
        AskedField(ResourceType.GROUP, "filter_groups", GET, None, ","),
        _group("compare_group", Action.GET),
        _topic("topic", Action.GET),
    )
)
CONSUME_DIRECTLY: Final = Access((_group("consumer_group", Action.SUB), _topic("topic", Action.SUB)), found=_CONSUMED)
