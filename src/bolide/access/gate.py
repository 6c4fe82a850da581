"""Checks every remoting request before its handler runs (docs/protocol/acl.md 4 and 5).

Authentication finds the principal whose secret signed the request. Authorization then checks the permissions that the
`Row` of the request code declares against the `Rights`. A rejected request gets RocketMQ's response code and text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from bolide.access.addresses import unmapped
from bolide.access.options import NO_FULL_USERS, AccessOptions, FullUsers
from bolide.access.policies import Acls
from bolide.access.rights import UNREADABLE, Denied, Principal, Rights
from bolide.access.user_rights import UserRights
from bolide.access.users import Users
from bolide.remoting.codes import NO_PERMISSION
from bolide.remoting.command import Command
from bolide.remoting.errors import BodyError, HeaderError
from bolide.remoting.request_access import Asked, AskedTopic
from bolide.remoting.request_routes import NO_CODES, Row
from bolide.remoting.signature import ACCESS_KEY, SIGNATURE, full_signature_holds, signature_holds

NO_NAME: Final = "username cannot be null."
BAD_SIGNATURE: Final = "check signature failed."
NOT_FULL: Final = "must sign in full: use a client of Bolide, or take the user out of fullSignatureUsers."


class Rules(Struct, frozen=True):
    """The settings that the gate reads."""

    authorization: bool
    strict: bool
    unsigned_codes: frozenset[int]
    free_codes: frozenset[int]
    cluster: str
    full_users: FullUsers = NO_FULL_USERS

    @staticmethod
    def of(options: AccessOptions, cluster: str) -> Rules:
        """Return the rules of a broker in this cluster."""
        return Rules(
            options.authorization_enabled,
            options.authorization_strict,
            options.unsigned_codes,
            options.free_codes,
            cluster,
            options.full_users,
        )


class RequestGate(ABC):
    """Finds the principal of each remoting request, and checks the permissions that the `Row` of its code declares."""

    denial: int
    """Response code of a rejection."""
    prefix = ""
    """Prefix of the remark."""

    def __init__(
        self,
        rights: Rights,
        rows: Mapping[int, Row[Any, Any]],
        unsigned: frozenset[int] = NO_CODES,
        free: frozenset[int] = NO_CODES,
    ) -> None:
        """Create a gate.

        `unsigned`: request codes that need a signature only if they require a permission. `free`: request codes that
        require no permission.
        """
        self._rights = rights
        self._rows = rows
        self._unsigned = unsigned
        self._free = free

    @abstractmethod
    def principal(self, source: str, command: Command) -> Principal:
        """Return the principal whose secret signed the request. Raises `Denied`."""

    def refusal(self, remote: str, command: Command) -> str | None:
        """Return why this request from the peer `address:port` is rejected, or None if it is allowed."""
        try:
            self._check(address_of(remote), command)
        except Denied as denied:
            return f"{self.prefix}{denied}"
        return None

    def _check(self, source: str, command: Command) -> None:
        rights = self._rights
        principal = None if command.code in self._unsigned else self.principal(source, command)
        row = self._rows.get(command.code)
        if row is None or command.code in self._free:
            return  # an unknown code is rejected later
        everything = principal is not None and rights.may_all(principal)
        if everything and row.access is None:
            return
        access = rights.in_force(row.access)
        asked: list[Asked] = []
        if not everything:
            try:
                asked = access.asked(command, row.header)
            except (HeaderError, BodyError):
                raise Denied(UNREADABLE) from None
        if not asked and access.found is None:
            return
        if principal is None:  # a claimed name is not enough for a permission
            principal = self.principal(source, command)
        rights.may(principal, asked)
        if access.found is not None:
            command.permit = FoundPermit(rights, principal, access.found, self.denial, self.prefix)


class Gate(RequestGate):
    """The gate of a broker with authenticationEnabled."""

    denial = NO_PERMISSION

    def __init__(self, users: Users, acls: Acls, rows: Mapping[int, Row[Any, Any]], rules: Rules) -> None:
        """`rows`: the server's rows by request code. They declare the required permissions."""
        self._user_rights = UserRights(users, acls, rules.cluster, rules.strict)
        self._full_users = rules.full_users
        super().__init__(self._user_rights, rows if rules.authorization else {}, rules.unsigned_codes, rules.free_codes)

    def principal(self, source: str, command: Command) -> Principal:
        """Return the user whose secret signed the request. Raises `Denied`."""
        ext = command.ext()
        name = ext.get(ACCESS_KEY, "")
        if not name.strip():
            raise Denied(NO_NAME)
        secret = self._user_rights.user(name).password
        full = full_signature_holds(command.code, ext, command.body, secret)
        if full is False:
            raise Denied(BAD_SIGNATURE)
        # A correct full signature covers everything that RocketMQ's signature covers, so one HMAC is enough.
        if full is None and not (SIGNATURE in ext and signature_holds(ext, command.body, secret, command.version)):
            raise Denied(BAD_SIGNATURE)
        if full is None and self._full_users.covers(name):
            raise Denied(f"User:{name} {NOT_FULL}")
        return Principal(name, source)


class FoundPermit(Struct, frozen=True):
    """The `Permit` of one principal. It uses the rights at the time of the check."""

    rights: Rights
    principal: Principal
    found: AskedTopic
    denial: int
    prefix: str
    """Prefix of each rejection."""

    def refusal(self, topics: Iterable[str]) -> str | None:
        refusals = [self._refusal(topic) for topic in topics] or [UNREADABLE]
        return None if None in refusals else f"{self.prefix}{refusals[0]}"

    def _refusal(self, topic: str) -> str | None:
        try:
            self.rights.may(self.principal, [self.found.asked(topic)])
        except Denied as denied:
            return str(denied)
        return None


def address_of(remote: str) -> str:
    """Return the address in `address:port`. An IPv4-mapped IPv6 address is returned as IPv4."""
    return unmapped(remote.rpartition(":")[0])
