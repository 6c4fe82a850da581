"""The check of every request before its handler runs (docs/protocol/acl.md 4 and 5).

Authentication finds the user whose secret signed the request. Authorization then compares the permissions in the code's
row with the policies. A rejected request gets NO_PERMISSION with RocketMQ's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from bolide.access.addresses import unmapped
from bolide.access.options import NO_FULL_USERS, AccessOptions, FullUsers
from bolide.access.policies import Acls, Ruling
from bolide.access.users import User, Users, UserStatus
from bolide.remoting.codes import NO_PERMISSION
from bolide.remoting.command import Command
from bolide.remoting.errors import BodyError, HeaderError
from bolide.remoting.headers.base import Header
from bolide.remoting.request_access import Access, Asked, AskedTopic, ResourceType
from bolide.remoting.signature import ACCESS_KEY, SIGNATURE, full_signature_holds, signature_holds

NO_NAME: Final = "username cannot be null."
BAD_SIGNATURE: Final = "check signature failed."
UNREADABLE: Final = "parse authorization context error."
NOT_FULL: Final = "must sign in full: use a client of Bolide, or take the user out of fullSignatureUsers."


class AskingRow(Protocol):
    """The part of a row that the gate uses."""

    @property
    def header(self) -> type[Header] | None:
        """The header of the code."""

    @property
    def access(self) -> Access | None:
        """Required permissions."""


class Denied(Exception):
    """The request is rejected; the text is the remark of the response."""


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
        """The rules of a broker of this cluster."""
        return Rules(
            options.authorization_enabled,
            options.authorization_strict,
            options.unsigned_codes,
            options.free_codes,
            cluster,
            options.full_users,
        )


class Gate:
    """The gate of a broker with authenticationEnabled."""

    denial: Final = NO_PERMISSION
    """Response code of a rejection."""

    def __init__(self, users: Users, acls: Acls, rows: Mapping[int, AskingRow], rules: Rules) -> None:
        """`rows`: the broker's rows by code, which contain the required permissions."""
        self._users = users
        self._acls = acls
        self._rows = rows
        self._rules = rules

    def refusal(self, remote: str, command: Command) -> str | None:
        """Return why this request from the peer `address:port` is rejected, or None if it is allowed."""
        try:
            self._check(remote, command)
        except Denied as denied:
            return str(denied)
        return None

    def _check(self, remote: str, command: Command) -> None:
        rules = self._rules
        user = None if command.code in rules.unsigned_codes else self._signer(command)
        row = self._rows.get(command.code)
        if not rules.authorization or command.code in rules.free_codes or row is None:
            return  # an unknown code is rejected later
        if row.access is None and user is not None and user.is_super:
            return
        access = self._declared(row)
        asked = [] if user is not None and user.is_super else self._asked(command, access, row)
        if not asked and access.found is None:
            return
        if user is None:  # a claimed name is not enough for a permission
            user = self._signer(command)
        source = address_of(remote)
        self._authorize(user, asked, source)
        if access.found is not None:
            command.permit = FoundPermit(self.may, user.name, source, access.found, NO_PERMISSION)

    def may(self, name: str, asked: Asked, source: str) -> None:
        """Raise `Denied` unless the current policies of the user allow the actions from this address."""
        user = self._users.get(name)
        if user is None or user.status is not UserStatus.ENABLE:
            raise Denied(f"User:{name} is not found or disabled.")
        self._authorize(user, [asked], source)

    def _signer(self, command: Command) -> User:
        ext = command.ext()
        name = ext.get(ACCESS_KEY, "")
        if not name.strip():
            raise Denied(NO_NAME)
        user = self._users.get(name)
        if user is None:
            raise Denied(f"User:{name} is not found.")
        if user.status is not UserStatus.ENABLE:
            raise Denied(f"User:{name} is disabled.")
        secret = user.password
        full = full_signature_holds(command.code, ext, command.body, secret)
        if full is False:
            raise Denied(BAD_SIGNATURE)
        # A right full signature covers all that RocketMQ's covers, so only one HMAC is computed.
        if full is None and not (SIGNATURE in ext and signature_holds(ext, command.body, secret, command.version)):
            raise Denied(BAD_SIGNATURE)
        if full is None and self._rules.full_users.covers(name):
            raise Denied(f"User:{name} {NOT_FULL}")
        return user

    def _declared(self, row: AskingRow) -> Access:
        access = row.access
        if access is None:
            raise Denied(UNREADABLE)
        return access.in_force(self._rules.strict)

    def _asked(self, command: Command, access: Access, row: AskingRow) -> list[Asked]:
        try:
            return access.asked(command, row.header)
        except (HeaderError, BodyError):
            raise Denied(UNREADABLE) from None

    def _authorize(self, user: User, asked: list[Asked], source: str) -> None:
        for one in () if user.is_super else asked:
            if one.kind is ResourceType.CLUSTER:
                one = one._replace(name=self._rules.cluster)
            decision = self._acls.deciding(user.name, one, source)
            if decision is not Ruling.ALLOW:
                why = "no matched policies." if decision is None else "the decision is deny."
                key = f"{one.kind.name.capitalize()}:{one.name}"
                raise Denied(f"User:{user.name} has no permission to access {key} from {source}, {why}")


class FoundPermit(Struct, frozen=True):
    """The `Permit` of one user or account. `may` raises `Denied` unless its current permissions allow the actions."""

    may: Callable[[str, Asked, str], None]
    name: str
    source: str
    found: AskedTopic
    denial: int
    prefix: str = ""
    """Prefix of each rejection."""

    def refusal(self, topics: Iterable[str]) -> str | None:
        refusals = [self._refusal(topic) for topic in topics] or [UNREADABLE]
        return None if None in refusals else f"{self.prefix}{refusals[0]}"

    def _refusal(self, topic: str) -> str | None:
        try:
            self.may(self.name, self.found.asked(topic), self.source)
        except Denied as denied:
            return str(denied)
        return None


def address_of(remote: str) -> str:
    """The address of a peer `address:port`; one of IPv4 as such, also on a port of IPv6."""
    return unmapped(remote.rpartition(":")[0])
