"""Principals, and the rights that a server grants them.

The front end of a connection identifies the principal. For remoting, `access/gate.py` takes the name from the signature
of each request, and the address from the connection or from the PROXY header of a trusted load balancer. `Rights` do
not depend on request or connection, so they are the same for every front end.
"""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Struct

from bolide.remoting.request_access import Access, Asked

UNREADABLE: Final = "parse authorization context error."


class Denied(Exception):
    """The sender is unknown or lacks a permission. The text is the remark of the response."""


class Principal(Struct, frozen=True):
    """The sender of a request."""

    name: str
    """User name or access key, as verified by the front end."""
    source: str
    """IP address."""


class Rights(Protocol):
    """The permissions of all principals of a server."""

    def in_force(self, declared: Access | None) -> Access:
        """Return the permissions that a request needs. `declared`: the field `access` of its `Row`. Raises `Denied`."""

    def may_all(self, principal: Principal) -> bool:
        """Return whether the principal has every permission, so that the request need not be decoded."""
        return False

    def may(self, principal: Principal, asked: list[Asked]) -> None:
        """Raise `Denied` unless the principal currently has all of these permissions."""
