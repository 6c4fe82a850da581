"""Checks the account and the signature of every request if `aclEnable` is set (docs/protocol/acl.md 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bolide.access.account_rights import AccountRights, NeedsAdmin
from bolide.access.gate import NOT_FULL, RequestGate
from bolide.access.options import NO_FULL_USERS, FullUsers
from bolide.access.plain_accounts import Accounts
from bolide.access.rights import Denied, Principal
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.remoting.request_routes import Row
from bolide.remoting.signature import ACCESS_KEY, UNIQUE_KEY_QUERY, full_signature_holds, signature_holds

EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "


class PlainGate(RequestGate):
    """The gate of a broker with aclEnable. `accounts` may be replaced at run time."""

    denial = codes.SYSTEM_ERROR
    prefix = EXCEPTION

    def __init__(
        self,
        accounts: Accounts,
        rows: Mapping[int, Row[Any, Any]],
        strict: bool,
        full_users: FullUsers = NO_FULL_USERS,
    ) -> None:
        self.accounts = accounts
        self._account_rights = AccountRights(lambda: self.accounts, strict)
        self._full_users = full_users
        super().__init__(self._account_rights, rows)

    def _check(self, source: str, command: Command) -> None:
        accounts, key = self.accounts, command.ext().get(ACCESS_KEY, "")
        if any(matches(source) for matches in accounts.trusted):
            return
        if key in accounts.by_key and accounts.by_key[key].trusted(source):
            return
        try:
            super()._check(source, command)
        except NeedsAdmin:
            raise Denied(f"Need admin permission for request code={command.code}, but accessKey={key} is not") from None

    def principal(self, source: str, command: Command) -> Principal:
        """Return the account whose secret signed the request. Raises `Denied`."""
        key = command.ext().get(ACCESS_KEY, "")
        if not key.strip():
            raise Denied("No accessKey is configured")
        secret = self._account_rights.account(key).secret
        full = full_signature_holds(command.code, command.ext(), command.body, secret)
        if full is False or (full is None and not _signed(command, secret)):
            raise Denied(f"Check signature failed for accessKey={key}")
        if full is None and self._full_users.covers(key):
            raise Denied(f"accessKey={key} {NOT_FULL}")
        return Principal(key, source)


def _signed(command: Command, secret: str) -> bool:
    """Accept both forms: RocketMQ 4.9.7 omits _UNIQUE_KEY_QUERY from the signature, clients of 5.5.0 include it."""
    ext = command.ext()
    if signature_holds(ext, command.body, secret, command.version):
        return True
    return UNIQUE_KEY_QUERY in ext and signature_holds(ext, command.body, secret, 0)
