"""A broker's settings for access control, with RocketMQ's keys (docs/protocol/acl.md 3)."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Struct

from bolide.access.cluster_options import ACCESS, ClusterAccessOptions
from bolide.declaration import OURS
from bolide.errors import ConfigError

ADMINISTRATION: Final = range(3001, 3011)
"""Request codes that manage users and policies."""


class AccessOptions(ClusterAccessOptions, frozen=True, kw_only=True):
    """Settings of access control. See docs/security.md."""

    acl_enable: Annotated[
        bool,
        ACCESS(
            "Reject every request that no account of the files in `aclFolder` has signed, as RocketMQ 4.9 does. Needs "
            "PyYAML: `pip install 'bolide[server]'`."
        ),
    ] = False
    acl_folder: Annotated[
        str,
        ACCESS(
            "Folder of `plain_acl.yml` and of the folder `acl/` with further files; empty: the folder "
            "`conf` in the variable ROCKETMQ_HOME, as in RocketMQ. Changes count within seconds.",
            java=OURS,
        ),
    ] = ""
    cluster_authentication_enabled: Annotated[
        bool,
        ACCESS(
            "Send the log only to slaves, and follow only masters, that prove to have "
            "`innerClientAuthenticationCredentials`. For all brokers, name servers and controllers of a cluster.",
            java=OURS,
        ),
    ] = False
    authentication_enabled: Annotated[
        bool, ACCESS("Reject every request that no known user has signed. Users are stored in `config/users.json`.")
    ] = False
    authentication_whitelist: Annotated[
        str, ACCESS("Request codes, separated by `,`, that need no signature unless they require a permission.")
    ] = ""
    init_authentication_user: Annotated[
        str,
        ACCESS('User of type Super, created at the start unless one exists: `{"username":"..","password":".."}`.'),
    ] = ""
    inner_client_authentication_credentials: Annotated[
        str,
        ACCESS(
            "Credentials with which the broker signs its own requests to masters and name servers, and of a Super "
            'user that is created at the start unless one exists: `{"accessKey":"..","secretKey":".."}`.'
        ),
    ] = ""
    authorization_enabled: Annotated[
        bool,
        ACCESS(
            "Reject requests that no policy allows the user. Policies are stored in `config/acls.json`. Needs "
            "`authenticationEnabled`."
        ),
    ] = False
    authorization_whitelist: Annotated[str, ACCESS("Request codes, separated by `,`, that require no permission.")] = ""
    authorization_strict: Annotated[
        bool,
        ACCESS(
            "Also require permissions where RocketMQ allows every user: the cluster's for settings, groups and "
            "tables, the topic's for lite pulls and replies, and each light queue's for a message that lists it.",
            java=OURS,
        ),
    ] = False

    full_signature_users: Annotated[
        str,
        ACCESS(
            "Users, separated by `,`, or `*` for all, whose requests need Bolide's full signature, so that a "
            "recorded request of theirs cannot be turned into a different one. Clients of RocketMQ do not send it.",
            java=OURS,
        ),
    ] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.authorization_enabled and not self.authentication_enabled:
            raise ConfigError(
                "authorizationEnabled = true needs authenticationEnabled = true: without it anyone may use any name"
            )
        if not self.unsigned_codes.isdisjoint(ADMINISTRATION):
            raise ConfigError(
                f"authenticationWhitelist = {self.authentication_whitelist!r} is not allowed: without a signature "
                f"anyone could make users and read passwords ({ADMINISTRATION[0]} to {ADMINISTRATION[-1]})"
            )
        if self.acl_enable and self.authentication_enabled:
            raise ConfigError(
                "aclEnable = true and authenticationEnabled = true exclude each other: the first uses the accounts in "
                "plain_acl.yml, the second its own users"
            )
        if self.acl_enable and not self.acl_folder.strip():
            raise ConfigError(
                "aclEnable = true needs aclFolder, the folder with plain_acl.yml: set it, or the variable ROCKETMQ_HOME"
            )
        _ = self.free_codes

    @property
    def unsigned_codes(self) -> frozenset[int]:
        """Request codes in `authenticationWhitelist`. Raises `ConfigError` if it is invalid."""
        return _codes_of("authenticationWhitelist", self.authentication_whitelist)

    @property
    def full_users(self) -> FullUsers:
        """Users in `fullSignatureUsers`."""
        return FullUsers(frozenset(word.strip() for word in self.full_signature_users.split(",") if word.strip()))

    @property
    def free_codes(self) -> frozenset[int]:
        """Request codes in `authorizationWhitelist`. Raises `ConfigError` if it is invalid."""
        return _codes_of("authorizationWhitelist", self.authorization_whitelist)


class FullUsers(Struct, frozen=True):
    """The users whose requests need the full signature."""

    names: frozenset[str]

    def covers(self, name: str) -> bool:
        """Return whether requests of this user need the full signature."""
        return name in self.names or "*" in self.names


NO_FULL_USERS: Final = FullUsers(frozenset())


def _codes_of(key: str, text: str) -> frozenset[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isascii() and word.removeprefix("-").isdecimal() for word in words):
        raise ConfigError(f"{key} = {text!r} is not allowed: it must be request codes, separated by commas")
    return frozenset(map(int, words))
