"""Determines whether the cluster requires authentication, and whether a user may make changes in the console."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from bolide.access.policies import USER_PREFIX, AclInfo
from bolide.access.users import UserStatus, UserType, user_status, user_type
from bolide.admin import Admin
from bolide.client.messages.errors import NoQueue, ResponseError
from bolide.console.cached import Cached
from bolide.console.cluster import TIMEOUT, ClusterView
from bolide.errors import BolideError
from bolide.remoting import codes

KEPT_S: Final = 15.0
"""Seconds for which to cache whether the brokers require authentication."""
STRANGER: Final = "bolide-console-"
OLD_ACL: Final = "AclException"
"""Text in the remark of a 4.9 broker that rejects a signature."""


class WrongPassword(BolideError):
    """Name or password are wrong, or the user is disabled."""


class AccessControl:
    """Checks whether the brokers require signatures, by requests of a random user that cannot exist."""

    def __init__(self, namesrv: str, clock: Callable[[], float]) -> None:
        self._name = STRANGER + secrets.token_hex(16)
        # Always pass keys: otherwise Admin takes them from the environment, and brokers may accept those.
        self._admin = Admin(namesrv, timeout=TIMEOUT, access_key=self._name, secret_key=secrets.token_hex(16))
        self._cached = Cached(clock)
        self._known: bool | None = None

    async def start(self) -> None:
        """Start the admin client."""
        await self._admin.start()

    async def close(self) -> None:
        """Close the connections."""
        await self._admin.close()

    async def wanted(self) -> bool:
        """Return whether a broker rejects a request without a valid signature. If no broker responds, return the last
        known result. Raises `BolideError` if there is none.
        """
        try:
            self._known = await self._cached.get("wanted", self._ask, KEPT_S)
        except BolideError:
            if self._known is None:
                raise
        return self._known

    async def _ask(self) -> bool:
        failure: BolideError = NoQueue("no master of any broker is registered")
        answered = False
        for address in (await self._admin.masters()).values():
            try:
                # Unlike other requests, this one is never accepted without a signature.
                await self._admin.user(self._name, broker=address)
                answered = True
            except ResponseError as refused:
                if refuses_signature(refused):
                    return True
                answered = True
            except BolideError as error:
                failure = error
        if not answered:
            raise failure
        return False


def refuses_signature(error: ResponseError) -> bool:
    """Return whether a broker rejected a request because of its signature."""
    return error.code == codes.NO_PERMISSION or OLD_ACL in error.remark


async def log_in(view: ClusterView, user: str) -> bool:
    """Return whether the user of this view may make changes. Raises `WrongPassword`, or another `BolideError` if no
    broker responds."""
    address = next(iter((await view.admin.masters()).values()))
    try:
        await view.admin.broker_runtime(address)
    except ResponseError as error:
        if OLD_ACL in error.remark or (error.code == codes.NO_PERMISSION and "no permission" not in error.remark):
            raise WrongPassword("the name or the password is wrong, or the user is disabled") from None
        if error.code != codes.NO_PERMISSION:
            raise
    return await _may_write(view, address, user)


async def _may_write(view: ClusterView, address: str, user: str) -> bool:
    """Return whether a user may change the cluster: a super user, or a user whose policies allow it. False if the
    broker denies the query."""
    try:
        config = await view.admin.broker_config(address)
        if config.get("authorizationEnabled") == "false":
            return True  # every authenticated user may do everything
    except ResponseError:
        pass
    try:
        known = await view.admin.user(user, broker=address)
        if known is not None and user_type(known.user_type) is UserType.SUPER:
            return user_status(known.user_status) is UserStatus.ENABLE
        policies = await view.admin.policies(user=user)
    except ResponseError:
        return False
    return updates_cluster(policies.get(user))


def updates_cluster(info: AclInfo | None) -> bool:
    """Return whether a policy allows its user to update the cluster, and no policy denies it."""
    if info is None or not (info.subject or "").startswith(USER_PREFIX):
        return False
    entries = [entry for policy in info.policies for entry in policy.entries or ()]
    about = [
        entry
        for entry in entries
        if ((entry.resource or "") == "*" or (entry.resource or "").lower().startswith("cluster:"))
        and {action.lower() for action in entry.actions or ()} & {"update", "all", "any"}
    ]
    return bool(about) and all((entry.decision or "").lower() == "allow" for entry in about)
