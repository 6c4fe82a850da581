"""Rights of users by their policies: ACL 2 (docs/protocol/acl.md 5)."""

from __future__ import annotations

from bolide.access.policies import Acls, Ruling
from bolide.access.rights import UNREADABLE, Denied, Principal, Rights
from bolide.access.users import User, Users, UserStatus
from bolide.remoting.request_access import Access, Asked, ResourceType


class UserRights(Rights):
    """Rights of a broker's users according to their policies. `cluster`: name of the broker's cluster."""

    def __init__(self, users: Users, acls: Acls, cluster: str, strict: bool) -> None:
        self._users = users
        self._acls = acls
        self._cluster = cluster
        self._strict = strict

    def in_force(self, declared: Access | None) -> Access:
        """Return the permissions that a request needs. Raises `Denied` if the row declares no access."""
        if declared is None:
            raise Denied(UNREADABLE)
        return declared.in_force(self._strict)

    def may_all(self, principal: Principal) -> bool:
        """Return whether the principal is a Super user."""
        user = self._users.get(principal.name)
        return user is not None and user.is_super

    def may(self, principal: Principal, asked: list[Asked]) -> None:
        """Raise `Denied` unless the user's current policies allow all of this from the principal's address."""
        user = self.user(principal.name)
        for one in () if user.is_super else asked:
            if one.kind is ResourceType.CLUSTER:
                one = one._replace(name=self._cluster)
            decision = self._acls.deciding(user.name, one, principal.source)
            if decision is not Ruling.ALLOW:
                why = "no matched policies." if decision is None else "the decision is deny."
                key = f"{one.kind.name.capitalize()}:{one.name}"
                raise Denied(f"User:{user.name} has no permission to access {key} from {principal.source}, {why}")

    def user(self, name: str) -> User:
        """Return the user with this name. Raises `Denied` if it does not exist or is disabled."""
        user = self._users.get(name)
        if user is None:
            raise Denied(f"User:{name} is not found.")
        if user.status is not UserStatus.ENABLE:
            raise Denied(f"User:{name} is disabled.")
        return user
