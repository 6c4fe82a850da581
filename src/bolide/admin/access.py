"""Users and policies of access control (mqadmin's createUser, listUser, createAcl, listAcl and related commands).

Each broker stores its users and policies separately. A change is sent to the masters one after the other, and signed
like any other request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from bolide.access.policies import USER_PREFIX, AclInfo, EntryInfo, PolicyInfo, PolicyType, Resource
from bolide.access.users import UserInfo, UserStatus, UserType
from bolide.admin.calls import AdminCalls, ext_of
from bolide.client.messages.arguments import shown
from bolide.client.messages.checked import Allowed, checked_methods, one_of, several
from bolide.errors import ArgumentError
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer, encode_body
from bolide.remoting.request_access import Action

# Brokers treat an unknown type as Normal and an unknown status as enabled, and ignore unknown actions and resources.
USER_TYPES: Final = [each.text for each in UserType]
USER_STATUSES: Final = [each.text for each in UserStatus]
ACTIONS: Final = [each.name.capitalize() for each in Action if each is not Action.ANY]
USER_TYPE: Final = Allowed("Super, Normal", one_of(*USER_TYPES))
USER_STATUS: Final = Allowed("enable, disable", one_of(*USER_STATUSES))
POLICY_TYPE: Final = Allowed("Custom, Default", one_of(*(each.name.capitalize() for each in PolicyType)))
SOME_ACTIONS: Final = Allowed("All, Pub, Sub, Create, Update, Delete, Get, List", several(one_of(*ACTIONS)))


def _resource(name: str, value: object) -> str:
    if not isinstance(value, str) or Resource.parse(value) is None:
        raise ArgumentError(
            f"{name} is {shown(value)}, give * or a kind and a name, such as Topic:orders, Group:bill* or Cluster:*",
            name,
        )
    return value


RESOURCE: Final = Allowed("`*`, `Topic:name`, `Group:prefix*`, `Cluster:*`", _resource)


@checked_methods
class AccessCalls(AdminCalls):
    """Calls on users and their policies."""

    async def users(self, *, cluster: str | None = None) -> dict[str, UserInfo]:
        """Return all users by name, with their passwords, as in RocketMQ. Each user is from the first broker that has
        the user."""
        found: dict[str, UserInfo] = {}
        for address in (await self.masters(cluster)).values():
            answer = await self.ask(address, codes.AUTH_LIST_USER)
            for user in decode_answer(answer.body, list[UserInfo]) if answer.body else ():
                found.setdefault(user.username or "", user)
        return dict(sorted(found.items()))

    async def user(self, name: str, *, broker: str | None = None) -> UserInfo | None:
        """Return a user, or None if no broker has this user. Raises `ResponseError` if access control is off."""
        for address in (await self.masters(broker=broker)).values():
            answer = await self.ask(address, codes.AUTH_GET_USER, ext_of(username=name))
            if answer.body:
                return decode_answer(answer.body, UserInfo)
        return None

    async def create_user(
        self,
        name: str,
        password: str,
        *,
        user_type: Annotated[str, USER_TYPE] = "Normal",
        cluster: str | None = None,
    ) -> list[str]:
        """Create a user, ``Super`` or ``Normal``, on all masters, or only in `cluster`. Return the broker names."""
        info = UserInfo(name, password, user_type)
        return await self._tell_masters(codes.AUTH_CREATE_USER, {"username": name}, encode_body(info), cluster)

    async def update_user(
        self,
        name: str,
        *,
        password: str | None = None,
        user_type: Annotated[str | None, USER_TYPE] = None,
        user_status: Annotated[str | None, USER_STATUS] = None,
        cluster: str | None = None,
    ) -> list[str]:
        """Change a user's password, type or status (``enable`` or ``disable``) if given. Return the broker names."""
        info = UserInfo(name, password, user_type, user_status)
        return await self._tell_masters(codes.AUTH_UPDATE_USER, {"username": name}, encode_body(info), cluster)

    async def delete_user(self, name: str, *, cluster: str | None = None) -> list[str]:
        """Delete a user and all policies of the user. Return the broker names."""
        return await self._tell_masters(codes.AUTH_DELETE_USER, {"username": name}, b"", cluster)

    async def policies(self, *, user: str = "", cluster: str | None = None) -> dict[str, AclInfo]:
        """Return the policies of all users whose name contains `user`, by user,
        each from the first broker that has them."""
        found: dict[str, AclInfo] = {}
        ext = ext_of(subjectFilter=user or None)
        for address in (await self.masters(cluster)).values():
            answer = await self.ask(address, codes.AUTH_LIST_ACL, ext)
            for info in decode_answer(answer.body, list[AclInfo]) if answer.body else ():
                found.setdefault((info.subject or "").removeprefix(USER_PREFIX), info)
        return dict(sorted(found.items()))

    async def put_policy(
        self,
        user: str,
        resource: Annotated[str, RESOURCE],
        actions: Annotated[Sequence[str], SOME_ACTIONS],
        *,
        allow: bool = True,
        source_ips: Sequence[str] = (),
        cluster: str | None = None,
    ) -> list[str]:
        """Allow or deny a user `actions` (``Pub``, ``Sub``, ``Create``, ``Update``, ``Delete``, ``Get``, ``List``,
        ``All``) on a `resource` (``Topic:orders``, ``Group:bill*``, ``Cluster:*``). Return the broker names.

        Replaces the user's entry for the resource.
        """
        decision = "Allow" if allow else "Deny"
        entry = EntryInfo(resource, list(actions), list(source_ips) or None, decision)
        info = AclInfo(USER_PREFIX + user, [PolicyInfo("Custom", [entry])])
        return await self._tell_masters(
            codes.AUTH_CREATE_ACL, {"subject": USER_PREFIX + user}, encode_body(info), cluster
        )

    async def delete_policy(
        self,
        user: str,
        resource: Annotated[str | None, RESOURCE] = None,
        *,
        policy_type: Annotated[str, POLICY_TYPE] = "Custom",
        cluster: str | None = None,
    ) -> list[str]:
        """Delete a user's entry for a resource, or all entries if `resource` is None. Return the broker names."""
        ext = ext_of(subject=USER_PREFIX + user, policyType=policy_type, resource=resource)
        return await self._tell_masters(codes.AUTH_DELETE_ACL, ext, b"", cluster)

    async def _tell_masters(self, code: int, ext: dict[str, str], body: bytes, cluster: str | None) -> list[str]:
        masters = await self.masters(cluster)
        for address in masters.values():
            await self.ask(address, code, dict(ext), body)
        return sorted(masters)
