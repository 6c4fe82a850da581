"""The check of every request with `aclEnable`: ACL 1 of RocketMQ 4.9.7 (docs/protocol/acl.md 2).

The row of a code contains the required permissions. Rejections have RocketMQ's code and text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bolide.access.gate import NOT_FULL, UNREADABLE, AskingRow, Denied, FoundPermit, address_of
from bolide.access.options import NO_FULL_USERS, FullUsers
from bolide.access.plain_accounts import Accounts, Perm
from bolide.layout.names import RETRY_PREFIX, TRACE_TOPIC
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.remoting.errors import BodyError, HeaderError
from bolide.remoting.request_access import PUB, SIGNED_UPDATE, Action, Asked, ResourceType
from bolide.remoting.signature import ACCESS_KEY, UNIQUE_KEY_QUERY, full_signature_holds, signature_holds

EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
TRACE: Final = Asked(ResourceType.TOPIC, TRACE_TOPIC, PUB)
_PERMS: Final = ((Action.PUB, Perm.PUB), (Action.SUB, Perm.SUB), (Action.GET, Perm.SUB))
"""The permission of ACL 1 for an action on a topic or group. Everything else needs an admin."""


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
        row = self._rows.get(command.code)
        if row is None:
            return  # an unknown code is rejected later
        access = (row.access if row.access is not None else SIGNED_UPDATE).in_acl_1(self._strict)
        try:
            asked = access.asked(command, row.header)
        except (HeaderError, BodyError):
            raise Denied(UNREADABLE) from None
        if access.found is not None:
            command.permit = FoundPermit(self.may, key, address, access.found, self.denial, EXCEPTION)
        if TRACE in asked:
            return
        if not account.admin and any(one.kind is ResourceType.CLUSTER for one in asked):
            raise Denied(f"Need admin permission for request code={command.code}, but accessKey={key} is not")
        for one in asked:
            self.may(key, one, address)

    def may(self, key: str, asked: Asked, address: str) -> None:
        """Raise `Denied` unless the current entries of the account allow the actions from this address."""
        account = self.accounts.by_key.get(key)
        if account is None:
            raise Denied(f"No acl config for {key}")
        topical = asked.kind is not ResourceType.CLUSTER
        perm = next((perm for action, perm in _PERMS if action in asked.actions and topical), None)
        if account.trusted(address) or (account.admin and (perm is None or not account.perms)):
            return
        if perm is None:
            raise Denied(f"Need admin permission, but accessKey={key} is not")
        group = asked.kind is ResourceType.GROUP
        name = f"{RETRY_PREFIX}{asked.name}" if group else asked.name
        if not account.may(name, perm):
            kind = "group" if name.startswith(RETRY_PREFIX) else "topic"
            raise Denied(f"No default permission for {kind}:{name.removeprefix(RETRY_PREFIX)}")


def _signed(command: Command, secret: str) -> bool:
    """4.9.7 leaves _UNIQUE_KEY_QUERY out, clients of 5.5.0 sign it: both are taken."""
    ext = command.ext()
    if signature_holds(ext, command.body, secret, command.version):
        return True
    return UNIQUE_KEY_QUERY in ext and signature_holds(ext, command.body, secret, 0)
