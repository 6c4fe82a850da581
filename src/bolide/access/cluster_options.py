"""Settings that the brokers, name servers and controllers of a cluster use to authenticate each other."""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

import msgspec

from bolide.access.users import MOST_NAME, Credentials, Users
from bolide.declaration import OURS, DeclaredOptions, Section
from bolide.errors import ConfigError
from bolide.remoting.listening import LOOPBACK

T = TypeVar("T")
ACCESS: Final = Section("Access control")


class _InitUser(msgspec.Struct):
    username: str
    password: str


class _InnerCredentials(msgspec.Struct, rename="camel"):
    access_key: str
    secret_key: str


class ClusterAccessOptions(DeclaredOptions, frozen=True, kw_only=True):
    """The switch and the credentials of two users. Servers sign with the inner credentials. See docs/security.md."""

    cluster_authentication_enabled: Annotated[
        bool,
        ACCESS(
            "Reject every request that changes state, unless it is signed with `innerClientAuthenticationCredentials` "
            "or by `initAuthenticationUser`. For all servers of a cluster.",
            java=OURS,
        ),
    ] = False
    init_authentication_user: Annotated[
        str,
        ACCESS(
            'A second user whose signature is accepted, such as an administrator: `{"username":"..","password":".."}`.',
            java=OURS,
        ),
    ] = ""
    inner_client_authentication_credentials: Annotated[
        str,
        ACCESS(
            "Credentials that sign the requests of the daemons of a cluster to each other: "
            '`{"accessKey":"..","secretKey":".."}`.',
            java=OURS,
        ),
    ] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.first_user
        if self.inner_credentials is None and self.cluster_authentication_enabled:
            raise ConfigError(
                "clusterAuthenticationEnabled = true needs innerClientAuthenticationCredentials, the same at all "
                "daemons of the cluster: they sign their requests to each other with them"
            )

    @property
    def first_user(self) -> Credentials | None:
        """Credentials in `initAuthenticationUser`, or None if empty. Raises `ConfigError`, which does not quote it."""
        if not self.init_authentication_user.strip():
            return None
        found = _read("initAuthenticationUser", self.init_authentication_user, _InitUser, "username and password")
        return _checked("initAuthenticationUser", Credentials(found.username, found.password))

    @property
    def inner_credentials(self) -> Credentials | None:
        """Credentials in `innerClientAuthenticationCredentials`, or None if it is empty.

        Raises `ConfigError`, which does not quote the setting.
        """
        key = "innerClientAuthenticationCredentials"
        if not self.inner_client_authentication_credentials.strip():
            return None
        found = _read(key, self.inner_client_authentication_credentials, _InnerCredentials, "accessKey and secretKey")
        return _checked(key, Credentials(found.access_key, found.secret_key))

    @property
    def cluster_users(self) -> Users:
        """Users of type Super with the credentials of both settings. Raises `ConfigError` without quoting them."""
        users = Users()
        users.make_missing((self.inner_credentials, self.first_user))
        return users


class GuardedDaemonOptions(ClusterAccessOptions, frozen=True, kw_only=True):
    """Settings of a name server or controller, which do not store users."""

    cluster_authentication_reads: Annotated[
        bool,
        ACCESS(
            "With `clusterAuthenticationEnabled`: also reject unsigned reads, such as routes. Clients then sign with "
            "the credentials of one of the two users.",
            java=OURS,
        ),
    ] = False

    def warnings_of(self, bind_address: str, risk: str) -> tuple[str, ...]:
        """Return a warning for the startup log if other hosts can reach a port that accepts unsigned requests.

        `risk`: what anyone who reaches the port may do.
        """
        if self.cluster_authentication_enabled or bind_address in LOOPBACK:
            return ()
        return (
            f"clusterAuthenticationEnabled = false: anyone who reaches {bind_address} may {risk}, see docs/security.md",
        )


def _read(key: str, text: str, kind: type[T], fields: str) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except (ValueError, RecursionError):
        raise ConfigError(f"{key} cannot be read: it must be a JSON object with the texts {fields}") from None


def _checked(key: str, found: Credentials) -> Credentials:
    if not found.name.strip() or not found.secret.strip() or len(found.name) > MOST_NAME:
        raise ConfigError(
            f"{key} must have a name of at most {MOST_NAME} characters and a secret, neither of them blank"
        )
    return found
