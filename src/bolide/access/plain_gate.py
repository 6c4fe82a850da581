"""The check of every request with `aclEnable`: ACL 1 of RocketMQ 4.9.7 (docs/protocol/acl.md 2).

The table `NEEDS` contains the required permissions; all other requests need only a signature, as in RocketMQ.
Rejections have RocketMQ's code and text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bolide.access.gate import NOT_FULL, UNREADABLE, AskingRow, Denied, FoundPermit, address_of
from bolide.access.options import NO_FULL_USERS, FullUsers
from bolide.access.plain_accounts import Account, Accounts, Perm
from bolide.layout.names import RETRY_PREFIX, TRACE_TOPIC
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_body
from bolide.remoting.bodies.clients import HeartbeatData
from bolide.remoting.command import Command
from bolide.remoting.errors import BodyError, HeaderError
from bolide.remoting.headers.base import Header
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.permit import Permit
from bolide.remoting.request_access import Action, Asked, ResourceType
from bolide.remoting.signature import ACCESS_KEY, UNIQUE_KEY_QUERY, full_signature_holds, signature_holds

EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
ADMIN_CODES: Final = frozenset(
    {
        codes.UPDATE_AND_CREATE_TOPIC,
        codes.UPDATE_BROKER_CONFIG,
        codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        codes.DELETE_TOPIC_IN_BROKER,
        codes.DELETE_SUBSCRIPTIONGROUP,
    }
)
Needed = list[tuple[str, Perm]]
"""Topics, or groups as their retry topics, with the permissions needed for each."""


def _send(header: Header) -> Needed:
    topic = str(getattr(header, "topic", ""))
    return [] if topic.startswith(RETRY_PREFIX) else [(topic, Perm.PUB)]


def _send_v2(header: Header) -> Needed:
    topic = str(getattr(header, "topic", ""))
    if topic.startswith(RETRY_PREFIX):
        return [(_retry(str(getattr(header, "producer_group", ""))), Perm.SUB)]
    return [(topic, Perm.PUB)]


def _strict_send(header: Header) -> Needed:
    topic = str(getattr(header, "topic", ""))
    return [(topic, Perm.SUB if topic.startswith(RETRY_PREFIX) else Perm.PUB)]


def _fields(*names: str) -> Callable[[Header], Needed]:
    """SUB on the objects named by these fields; a field without a value needs no permission."""

    def needed(header: Header) -> Needed:
        found = [(name, str(getattr(header, name, None) or "")) for name in names]
        return [(value if name == "topic" else _retry(value), Perm.SUB) for name, value in found if value]

    return needed


def _retry(group: str) -> str:
    return group if group.startswith(RETRY_PREFIX) else RETRY_PREFIX + group


NEEDS: Final[Mapping[int, Callable[[Header], Needed]]] = {
    codes.SEND_MESSAGE: _send,
    codes.SEND_MESSAGE_V2: _send_v2,
    codes.CONSUMER_SEND_MSG_BACK: _fields("group"),
    codes.PULL_MESSAGE: _fields("topic", "consumer_group"),
    codes.QUERY_MESSAGE: _fields("topic"),
    codes.UNREGISTER_CLIENT: _fields("consumer_group"),
    codes.GET_CONSUMER_LIST_BY_GROUP: _fields("consumer_group"),
    codes.UPDATE_CONSUMER_OFFSET: _fields("consumer_group", "topic"),
}
STRICT: Final[Mapping[int, Callable[[Header], Needed]]] = {
    **NEEDS,
    codes.SEND_MESSAGE: _strict_send,
    codes.SEND_MESSAGE_V2: _strict_send,
    codes.SEND_BATCH_MESSAGE: _strict_send,
    codes.LITE_PULL_MESSAGE: _fields("topic", "consumer_group"),
}
"""With authorizationStrict: also the ways around the others."""


class PlainGate:
    """The gate of a broker with aclEnable. `accounts` may be replaced at run time."""

    denial: Final = codes.SYSTEM_ERROR
    """Response code of a rejection."""

    def __init__(
        self,
        accounts: Accounts,
        rows: Mapping[int, AskingRow],
        strict: bool,
        full_users: FullUsers = NO_FULL_USERS,
    ) -> None:
        self.accounts = accounts
        self._rows = rows
        self._strict = strict
        self._full_users = full_users
        self._needs = STRICT if strict else NEEDS

    def refusal(self, remote: str, command: Command) -> str | None:
        """Return why this request from the peer `address:port` is rejected, or None if it is allowed."""
        try:
            self._check(address_of(remote), command)
        except Denied as denied:
            return f"{EXCEPTION}{denied}"
        return None

    def _check(self, address: str, command: Command) -> None:
        accounts = self.accounts
        if any(matches(address) for matches in accounts.trusted):
            return
        key = command.ext().get(ACCESS_KEY, "")
        if not key.strip():
            raise Denied("No accessKey is configured")
        account = accounts.by_key.get(key)
        if account is None:
            raise Denied(f"No acl config for {key}")
        if account.trusted(address):
            return
        full = full_signature_holds(command.code, command.ext(), command.body, account.secret)
        if full is False or (full is None and not _signed(command, account.secret)):
            raise Denied(f"Check signature failed for accessKey={key}")
        if full is None and self._full_users.covers(key):
            raise Denied(f"accessKey={key} {NOT_FULL}")
        needed = self._needed(command)
        command.permit = self._permit(key, address, command)
        if (TRACE_TOPIC, Perm.PUB) in needed:
            return
        if not account.admin and (command.code in ADMIN_CODES or (self._strict and self._asks_of_cluster(command))):
            raise Denied(f"Need admin permission for request code={command.code}, but accessKey={key} is not")
        if account.admin and not account.perms:
            return
        _allow(account, needed)

    def may(self, key: str, asked: Asked, address: str) -> None:
        """Raise `Denied` unless the current entries of the account allow the actions from this address."""
        account = self.accounts.by_key.get(key)
        if account is None:
            raise Denied(f"No acl config for {key}")
        perm = next((perm for action, perm in _PERMS if action in asked.actions), None)
        if account.trusted(address) or (account.admin and (perm is None or not account.perms)):
            return
        if perm is None:
            raise Denied(f"Need admin permission, but accessKey={key} is not")
        _allow(account, [(RETRY_PREFIX + asked.name if asked.kind is ResourceType.GROUP else asked.name, perm)])

    def _permit(self, key: str, address: str, command: Command) -> Permit | None:
        """Return the permit of a request, or None if its code needs only a signature in RocketMQ 4.9."""
        row = self._rows.get(command.code)
        if row is None or row.access is None:
            return None
        found = row.access.in_force(self._strict).found
        asks = self._strict or command.code in self._needs or command.code == codes.HEART_BEAT
        if found is None or not asks:
            return None
        return FoundPermit(self.may, key, address, found, self.denial, EXCEPTION)

    def _asks_of_cluster(self, command: Command) -> bool:
        """Whether the request administers the broker, as defined by ACL 2."""
        row = self._rows.get(command.code)
        if row is None:
            return False  # an unknown code is rejected later
        access = row.access
        return access is None or bool(access.in_force(True).cluster)

    def _needed(self, command: Command) -> Needed:
        try:
            if command.code == codes.HEART_BEAT:
                return _of_heartbeat(command)
            needs, row = self._needs.get(command.code), self._rows.get(command.code)
            if needs is None or row is None or row.header is None:
                return []
            return needs(decode_header(command, row.header))
        except (HeaderError, BodyError):
            raise Denied(UNREADABLE) from None


_PERMS: Final = ((Action.PUB, Perm.PUB), (Action.SUB, Perm.SUB), (Action.GET, Perm.SUB))
"""The permission of ACL 1 for an action. Other actions need an admin."""


def _of_heartbeat(command: Command) -> Needed:
    found: Needed = []
    for consumer in decode_body(command.body, HeartbeatData).consumer_data_set:
        found.append((_retry(consumer.group_name), Perm.SUB))
        found += [(item.topic, Perm.SUB) for item in consumer.subscription_data_set]
    return found


def _signed(command: Command, secret: str) -> bool:
    """4.9.7 leaves _UNIQUE_KEY_QUERY out, clients of 5.5.0 sign it: both are taken."""
    ext = command.ext()
    if signature_holds(ext, command.body, secret, command.version):
        return True
    return UNIQUE_KEY_QUERY in ext and signature_holds(ext, command.body, secret, 0)


def _allow(account: Account, needed: Needed) -> None:
    for name, perm in needed:
        if not account.may(name, perm):
            kind = f"group:{name[len(RETRY_PREFIX) :]}" if name.startswith(RETRY_PREFIX) else f"topic:{name}"
            raise Denied(f"No default permission for {kind}")
