"""Key-value configuration of a name server.

Fields and protocol names are from the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header


class PutKVConfigRequestHeader(Header):
    """Request 100 PUT_KV_CONFIG."""

    namespace: str
    key: str
    value: str


class GetKVConfigRequestHeader(Header):
    """Request 101 GET_KV_CONFIG."""

    namespace: str
    key: str


class GetKVConfigResponseHeader(Header):
    """Response to 101 GET_KV_CONFIG."""

    value: str | None = None


class DeleteKVConfigRequestHeader(Header):
    """Request 102 DELETE_KV_CONFIG."""

    namespace: str
    key: str


class GetKVListByNamespaceRequestHeader(Header):
    """Request 219 GET_KVLIST_BY_NAMESPACE."""

    namespace: str
