"""Users and policies of access control (ACL 2), release 5.5.0.

Fields and protocol names are from the Java header classes of the same names.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header


class CreateUserRequestHeader(Header):
    """Request 3001 AUTH_CREATE_USER. Body: UserInfo."""

    username: str | None = None


class UpdateUserRequestHeader(Header):
    """Request 3002 AUTH_UPDATE_USER. Body: UserInfo."""

    username: str | None = None


class DeleteUserRequestHeader(Header):
    """Request 3003 AUTH_DELETE_USER."""

    username: str | None = None


class GetUserRequestHeader(Header):
    """Request 3004 AUTH_GET_USER."""

    username: str | None = None


class ListUsersRequestHeader(Header):
    """Request 3005 AUTH_LIST_USER."""

    filter: str | None = None


class CreateAclRequestHeader(Header):
    """Request 3006 AUTH_CREATE_ACL. Body: AclInfo."""

    subject: str | None = None


class UpdateAclRequestHeader(Header):
    """Request 3007 AUTH_UPDATE_ACL. Body: AclInfo."""

    subject: str | None = None


class DeleteAclRequestHeader(Header, rename="camel"):
    """Request 3008 AUTH_DELETE_ACL."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class GetAclRequestHeader(Header):
    """Request 3009 AUTH_GET_ACL."""

    subject: str | None = None


class ListAclsRequestHeader(Header, rename="camel"):
    """Request 3010 AUTH_LIST_ACL."""

    subject_filter: str | None = None
    resource_filter: str | None = None
