"""Rights of accounts according to the account files: ACL 1 of RocketMQ 4.9.7 (docs/protocol/acl.md 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bolide.access.plain_accounts import Account, Accounts, Perm
from bolide.access.rights import Denied, Principal, Rights
from bolide.layout.names import RETRY_PREFIX, TRACE_TOPIC
from bolide.remoting.request_access import PUB, SIGNED_UPDATE, Access, Action, Asked, ResourceType

TRACE: Final = Asked(ResourceType.TOPIC, TRACE_TOPIC, PUB)
_PERMS: Final = ((Action.PUB, Perm.PUB), (Action.SUB, Perm.SUB), (Action.GET, Perm.SUB))
"""The permission of ACL 1 for an action on a topic or group. Everything else needs an admin."""


class NeedsAdmin(Denied):
    """The account is not an admin."""


class AccountRights(Rights):
    """Rights of a broker's accounts. `accounts` returns the current accounts."""

    def __init__(self, accounts: Callable[[], Accounts], strict: bool) -> None:
        self._accounts = accounts
        self._strict = strict

    def in_force(self, declared: Access | None) -> Access:
        """Return the permissions that a request needs."""
        return (SIGNED_UPDATE if declared is None else declared).in_acl_1(self._strict)

    def may(self, principal: Principal, asked: list[Asked]) -> None:
        """Raise `Denied` unless the account currently has all these permissions, or trusts the principal's address."""
        account = self.account(principal.name)
        if account.trusted(principal.source) or TRACE in asked:
            return
        for one in asked:
            perm = next((perm for action, perm in _PERMS if action in one.actions), None)
            if one.kind is ResourceType.CLUSTER or perm is None:
                if not account.admin:
                    raise NeedsAdmin(f"Need admin permission, but accessKey={account.key} is not")
            elif not (account.admin and not account.perms):
                _check(account, f"{RETRY_PREFIX}{one.name}" if one.kind is ResourceType.GROUP else one.name, perm)

    def account(self, key: str) -> Account:
        """Return the account with this access key. Raises `Denied` if it does not exist."""
        account = self._accounts().by_key.get(key)
        if account is None:
            raise Denied(f"No acl config for {key}")
        return account


def _check(account: Account, name: str, perm: Perm) -> None:
    if not account.may(name, perm):
        kind = "group" if name.startswith(RETRY_PREFIX) else "topic"
        raise Denied(f"No default permission for {kind}:{name.removeprefix(RETRY_PREFIX)}")
