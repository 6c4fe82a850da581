"""Users of ACL 2: names, secrets, types and status (docs/protocol/acl.md 3).

The password is the signature key, so it is stored in plain text. No `repr` contains it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from bolide.remoting.bodies.base import Body, encode_body
from bolide.remoting.command import Command
from bolide.remoting.signature import sign_request

MOST_NAME: Final = 255
MOST_USERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Credentials:
    """A name, and the secret that signs requests under this name."""

    name: str
    secret: str = field(repr=False)

    def sign(self, command: Command) -> Command:
        """Sign the request and return it. Fields added later invalidate the signature."""
        sign_request(command.ext(), command.body, self.name, self.secret, code=command.code)
        return command


def signed(command: Command, credentials: Credentials | None) -> Command:
    """Return the request, signed if there are credentials."""
    return command if credentials is None else credentials.sign(command)


class UserType(enum.IntEnum):
    """Type of a user: without policies, Super may do everything and Normal nothing."""

    SUPER = 1
    NORMAL = 2

    @property
    def text(self) -> str:
        """RocketMQ's name."""
        return self.name.capitalize()


class UserStatus(enum.IntEnum):
    """Status of a user. Signatures of a disabled user are rejected."""

    ENABLE = 1
    DISABLE = 2

    @property
    def text(self) -> str:
        """RocketMQ's name."""
        return self.name.lower()


class UserInfo(Body):
    """A user on the wire (UserInfo.java)."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None

    def __repr__(self) -> str:
        return f"UserInfo({self.username!r})"


@dataclass(frozen=True, slots=True)
class User:
    """One user."""

    name: str
    password: str = field(repr=False)
    kind: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE

    @property
    def is_super(self) -> bool:
        """Whether policies do not apply to the user."""
        return self.kind is UserType.SUPER

    def info(self) -> UserInfo:
        """Return the user for a response, with the password, as in RocketMQ."""
        return UserInfo(self.name, self.password, self.kind.text, self.status.text)


def user_type(text: str | None) -> UserType | None:
    """Return the type with this name (case-insensitive), or None if the name is blank. Unknown names mean Normal."""
    if not text or not text.strip():
        return None
    return UserType.__members__.get(text.upper(), UserType.NORMAL)


def user_status(text: str | None) -> UserStatus | None:
    """Return the status with this name (case-insensitive), or None if the name is blank. Unknown names mean enabled."""
    if not text or not text.strip():
        return None
    return UserStatus.__members__.get(text.upper(), UserStatus.ENABLE)


class Users:
    """All users of a broker, by name."""

    def __init__(self) -> None:
        self._users: dict[str, User] = {}

    def get(self, name: str) -> User | None:
        """Return the user with this name, or None."""
        return self._users.get(name)

    def put(self, user: User) -> None:
        """Add a user, or replace the user with the same name."""
        self._users[user.name] = user

    def drop(self, name: str) -> bool:
        """Remove a user. Return whether it existed."""
        return self._users.pop(name, None) is not None

    def listed(self, part: str) -> list[User]:
        """Return the users whose name contains `part`, sorted by name."""
        return [self._users[name] for name in sorted(self._users) if part in name]

    def make_missing(self, wanted: Iterable[Credentials | None]) -> bool:
        """Create the missing users with type Super. Return whether any was created."""
        made = False
        for one in wanted:
            if one is not None and one.name not in self._users:
                self.put(User(one.name, one.secret, UserType.SUPER))
                made = True
        return made

    @property
    def count(self) -> int:
        """Number of users."""
        return len(self._users)

    def encode(self) -> bytes:
        """Return the content of the file: users by name, in the format of RocketMQ's RocksDB."""
        rows = {
            user.name: {
                "password": user.password,
                "subjectType": 1,
                "userStatus": user.status.value,
                "userType": user.kind.value,
                "username": user.name,
            }
            for user in self._users.values()
        }
        return encode_body(rows)

    def load(self, data: bytes) -> None:
        """Load a file written by `encode`. Raises `ValueError`, `KeyError` or `TypeError` if it is invalid."""
        rows: dict[str, dict[str, Any]] = msgspec.json.decode(data, type=dict[str, dict[str, Any]])
        self._users = {
            name: User(name, str(row["password"]), UserType(row["userType"]), UserStatus(row["userStatus"]))
            for name, row in rows.items()
        }
