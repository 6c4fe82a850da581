"""Create, update, delete and list policies (3006 to 3010), stored in config/acls.json (docs/protocol/acl.md 6)."""

from __future__ import annotations

from typing import Final

from bolide.access.policies import (
    MOST_ENTRIES,
    USER_PREFIX,
    AclInfo,
    Acls,
    BadPolicy,
    PolicyType,
    Resource,
    limited,
    merged,
    policies_of,
    without,
)
from bolide.access.users import Users
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.service import Routes, Table
from bolide.broker.operator.user_admin import DONE, check_on
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_body, encode_body
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.access import (
    CreateAclRequestHeader,
    DeleteAclRequestHeader,
    GetAclRequestHeader,
    ListAclsRequestHeader,
    UpdateAclRequestHeader,
)
from bolide.remoting.request_access import GET_CLUSTER, UPDATE_CLUSTER
from bolide.remoting.request_routes import Kind, Route

NO_BODY: Final = "org.apache.rocketmq.auth.authorization.exception.AuthorizationException: The body of acl is null"
SYSTEM: Final = "An system error occurred, please try again later."


class AclAdminService(Table):
    """Updates and returns the policies of users."""

    def __init__(self, options: BrokerOptions, users: Users, acls: Acls, effects: Effects) -> None:
        super().__init__("acls")
        self._options = options
        self._users = users
        self._acls = acls
        self._effects = effects
        self._kept = False

    def routes(self) -> Routes:
        change, read = Kind.CHANGE, Kind.READ
        return [
            Route(codes.AUTH_CREATE_ACL, CreateAclRequestHeader, self.on_put, change, access=UPDATE_CLUSTER),
            Route(codes.AUTH_UPDATE_ACL, UpdateAclRequestHeader, self.on_put, change, access=UPDATE_CLUSTER),
            Route(codes.AUTH_DELETE_ACL, DeleteAclRequestHeader, self.on_delete, change, access=UPDATE_CLUSTER),
            Route(codes.AUTH_GET_ACL, GetAclRequestHeader, self.on_get, read, access=GET_CLUSTER),
            Route(codes.AUTH_LIST_ACL, ListAclsRequestHeader, self.on_list, read, access=GET_CLUSTER),
        ]

    def encode(self) -> bytes:
        """Encode config/acls.json; b"" if there never was a policy."""
        return self._acls.encode() if self._kept else b""

    def load(self, data: bytes) -> None:
        """Load config/acls.json."""
        self._acls.load(data)
        self._kept = True

    def dropped(self, user: str) -> None:
        """Delete the policies of a deleted user."""
        if self._acls.drop(user):
            self._persist()

    def on_put(
        self, channel: Channel, command: Command, header: CreateAclRequestHeader | UpdateAclRequestHeader, now: int
    ) -> Outcome:
        check_on(self._options)
        info = decode_body(command.body, AclInfo) if command.body else None
        if info is None or not info.policies:
            raise Refused(codes.SYSTEM_ERROR, NO_BODY)
        name = _user_of(header.subject)
        try:
            more = policies_of(info)
        except BadPolicy as bad:
            raise Refused(codes.NO_PERMISSION, str(bad)) from None
        if self._users.get(name) is None:
            raise Refused(codes.NO_PERMISSION, f"The subject of {USER_PREFIX}{name} is not exist.")
        policies = merged(self._acls.get(name) or {}, more)
        if not limited(policies):
            raise Refused(codes.SYSTEM_ERROR, f"a user has at most {MOST_ENTRIES} entries: use prefixes")
        self._acls.put(name, policies)
        self._persist()
        return reply(make_response(command, codes.SUCCESS, DONE))

    def on_delete(self, channel: Channel, command: Command, header: DeleteAclRequestHeader, now: int) -> Outcome:
        check_on(self._options)
        name = self._known(header.subject)
        policies = self._acls.get(name)
        if policies is None:
            raise Refused(codes.NO_PERMISSION, "The acl is not exist.")
        if header.resource is None or not header.resource.strip():
            self._acls.drop(name)
        else:
            resource = Resource.parse(header.resource)
            kind = PolicyType.__members__.get((header.policy_type or "").upper(), PolicyType.CUSTOM)
            if resource is not None:
                self._acls.put(name, without(policies, kind, resource))
        self._persist()
        return reply(make_response(command, codes.SUCCESS, DONE))

    def on_get(self, channel: Channel, command: Command, header: GetAclRequestHeader, now: int) -> Outcome:
        check_on(self._options)
        info = self._acls.info(self._known(header.subject))
        body = b"" if info is None else encode_body(info)
        return reply(make_response(command, codes.SUCCESS, DONE, body=body))

    def on_list(self, channel: Channel, command: Command, header: ListAclsRequestHeader, now: int) -> Outcome:
        check_on(self._options)
        found = self._acls.listed(header.subject_filter or "", header.resource_filter or "")
        return reply(make_response(command, codes.SUCCESS, DONE, body=encode_body(found) if found else b""))

    def _known(self, subject: str | None) -> str:
        if subject is None or not subject.strip():
            raise Refused(codes.NO_PERMISSION, "The subject is null.")
        name = _user_of(subject)
        if self._users.get(name) is None:
            raise Refused(codes.NO_PERMISSION, "The subject is not exist.")
        return name

    def _persist(self) -> None:
        self._kept = True
        self._effects.persist(self.persist_name)


def _user_of(subject: str | None) -> str:
    """Return the user of `User:name`. Raises `Refused` for another kind of subject."""
    kind, _, name = (subject or "").partition(":")
    if kind.lower() != "user" or not name:
        raise Refused(codes.SYSTEM_ERROR, SYSTEM)
    return name
