"""Access configuration of 4.9 brokers (plain_acl.yml by remote control).

Fields and names: the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header


class CreateAccessConfigRequestHeader(Header, rename="camel"):
    """Request 50 UPDATE_AND_CREATE_ACL_CONFIG."""

    access_key: str  # until 5.x
    secret_key: str | None = None  # until 5.x
    white_remote_address: str | None = None  # until 5.x
    admin: bool | None = None  # until 5.x
    default_topic_perm: str | None = None  # until 5.x
    default_group_perm: str | None = None  # until 5.x
    topic_perms: str | None = None  # until 5.x
    group_perms: str | None = None  # until 5.x


class DeleteAccessConfigRequestHeader(Header, rename="camel"):
    """Request 51 DELETE_ACL_CONFIG."""

    access_key: str  # until 5.x


class UpdateGlobalWhiteAddrsConfigRequestHeader(Header, rename="camel"):
    """Request 53 UPDATE_GLOBAL_WHITE_ADDRS_CONFIG."""

    global_white_addrs: str  # until 5.x
    acl_file_full_path: str  # until 5.x


class GetBrokerAclConfigResponseHeader(Header, rename="camel"):
    """Response to 52 GET_BROKER_CLUSTER_ACL_INFO."""

    version: str  # until 5.x
    broker_name: str  # until 5.x
    broker_addr: str  # until 5.x
    cluster_name: str  # until 5.x
    all_acl_file_version: str | None = None  # until 5.x
