"""Create, update, delete and list users (3001 to 3005), stored in config/users.json (docs/protocol/acl.md 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from bolide.access.users import (
    MOST_NAME,
    MOST_USERS,
    User,
    UserInfo,
    Users,
    UserStatus,
    UserType,
    user_status,
    user_type,
)
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.service import Routes, Table
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_body, encode_body
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.access import (
    CreateUserRequestHeader,
    DeleteUserRequestHeader,
    GetUserRequestHeader,
    ListUsersRequestHeader,
    UpdateUserRequestHeader,
)
from bolide.remoting.request_access import GET_CLUSTER, UPDATE_CLUSTER
from bolide.remoting.request_routes import Kind, Route
from bolide.remoting.signature import ACCESS_KEY

DONE: Final = "not set any response code"
"""The remark of a success, as RocketMQ sends it."""
OFF: Final = "access control is off: set authenticationEnabled = true in the broker's file and restart it"


class UserAdminService(Table):
    """Updates and returns users. `dropped` is called with the name of each deleted user."""

    def __init__(
        self, options: BrokerOptions, users: Users, effects: Effects, dropped: Callable[[str], object]
    ) -> None:
        super().__init__("users")
        self._options = options
        self._users = users
        self._effects = effects
        self._dropped = dropped
        self._kept = False

    def routes(self) -> Routes:
        change, read = Kind.CHANGE, Kind.READ
        return [
            Route(codes.AUTH_CREATE_USER, CreateUserRequestHeader, self.on_create, change, access=UPDATE_CLUSTER),
            Route(codes.AUTH_UPDATE_USER, UpdateUserRequestHeader, self.on_update, change, access=UPDATE_CLUSTER),
            Route(codes.AUTH_DELETE_USER, DeleteUserRequestHeader, self.on_delete, change, access=UPDATE_CLUSTER),
            Route(codes.AUTH_GET_USER, GetUserRequestHeader, self.on_get, read, access=GET_CLUSTER),
            Route(codes.AUTH_LIST_USER, ListUsersRequestHeader, self.on_list, read, access=GET_CLUSTER),
        ]

    def make_missing(self) -> bool:
        """Create missing users of the settings. Return whether the file must be written."""
        if not self._options.access.authentication_enabled:
            return False
        made = self._users.make_missing((self._options.access.first_user, self._options.access.inner_credentials))
        self._kept = self._kept or made
        return made

    def encode(self) -> bytes:
        """Encode config/users.json; b"" if there never was a user."""
        return self._users.encode() if self._kept else b""

    def load(self, data: bytes) -> None:
        """Load config/users.json."""
        self._users.load(data)
        self._kept = True

    def on_create(self, channel: Channel, command: Command, header: CreateUserRequestHeader, now: int) -> Outcome:
        check_on(self._options)
        name, info = self._named(header.username), decode_body(command.body, UserInfo)
        kind = user_type(info.user_type) or UserType.NORMAL
        if kind is UserType.SUPER and self._by_another(command):
            raise Refused(codes.SYSTEM_ERROR, "The super user can only be create by super user")
        password = info.password or ""
        if not password.strip():
            raise Refused(codes.NO_PERMISSION, "password can not be blank")
        if self._users.get(name) is not None:
            raise Refused(codes.NO_PERMISSION, "The user is existed")
        if self._users.count >= MOST_USERS or len(name) > MOST_NAME:
            raise Refused(
                codes.SYSTEM_ERROR,
                (f"at most {MOST_USERS} users are allowed, with names of up to {MOST_NAME} characters"),
            )
        self._users.put(User(name, password, kind, user_status(info.user_status) or UserStatus.ENABLE))
        return self._changed(command)

    def on_update(self, channel: Channel, command: Command, header: UpdateUserRequestHeader, now: int) -> Outcome:
        check_on(self._options)
        name, info = self._named(header.username), decode_body(command.body, UserInfo)
        kind = user_type(info.user_type)
        if kind is UserType.SUPER and self._by_another(command):
            raise Refused(codes.SYSTEM_ERROR, "The super user can only be update by super user")
        user = self._users.get(name)
        if user is None:
            raise Refused(codes.NO_PERMISSION, "The user is not exist")
        self._check_super(user, command)
        password = info.password if info.password and info.password.strip() else user.password
        status = user_status(info.user_status) or user.status
        self._users.put(replace(user, password=password, kind=kind or user.kind, status=status))
        return self._changed(command)

    def on_delete(self, channel: Channel, command: Command, header: DeleteUserRequestHeader, now: int) -> Outcome:
        check_on(self._options)
        name = header.username or ""
        if not name.strip():
            raise Refused(codes.NO_PERMISSION, "username can not be blank")
        user = self._users.get(name)
        if user is None:
            self._effects.persist_unsaved(self.persist_name)
            return reply(make_response(command, codes.SUCCESS, DONE))
        self._check_super(user, command)
        self._users.drop(name)
        self._dropped(name)
        return self._changed(command)

    def on_get(self, channel: Channel, command: Command, header: GetUserRequestHeader, now: int) -> Outcome:
        check_on(self._options)
        user = self._users.get(self._named(header.username))
        body = b"" if user is None else encode_body(user.info())
        return reply(make_response(command, codes.SUCCESS, DONE, body=body))

    def on_list(self, channel: Channel, command: Command, header: ListUsersRequestHeader, now: int) -> Outcome:
        check_on(self._options)
        found = [user.info() for user in self._users.listed(header.filter or "")]
        return reply(make_response(command, codes.SUCCESS, DONE, body=encode_body(found) if found else b""))

    def _named(self, name: str | None) -> str:
        if name is None or not name.strip():
            raise Refused(codes.INVALID_PARAMETER, "The username is blank")
        return name

    def _by_another(self, command: Command) -> bool:
        """Return whether the signer of the request is not a super user."""
        user = self._users.get(command.ext().get(ACCESS_KEY, ""))
        return user is None or not user.is_super

    def _check_super(self, user: User, command: Command) -> None:
        if user.is_super and self._by_another(command):
            raise Refused(codes.NO_PERMISSION, "The super user can only be update by super user")

    def _changed(self, command: Command) -> Outcome:
        self._kept = True
        self._effects.persist(self.persist_name)
        return reply(make_response(command, codes.SUCCESS, DONE))


def check_on(options: BrokerOptions) -> None:
    """Raise `Refused` if authentication is disabled, because any client could then create users and read passwords."""
    if not options.access.authentication_enabled:
        raise Refused(codes.SYSTEM_ERROR, OFF)
