"""Settings of RocketMQ that ask for something Bolide does not do yet: any value but the harmless one stops the start.

A key that only tunes something gets a warning instead (`node/settings/without_effect.py`). These are different: an
operator who sets `storeType=defaultRocksDB` relies on it, so a broker that keeps another store must not start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bolide.errors import ConfigError

_MIGRATION: Final = "users are not made of the accounts of plain_acl.yml: use aclEnable, or make them"
_NAMESRV: Final = "a name server asks nobody who they are, in RocketMQ neither, and only brokers keep this"
_USERS: Final = "users and policies are kept in the broker's own files, and another class would not be asked"
_AUTH: Final = "org.apache.rocketmq.auth."
_CONTROLLER: Final = (
    "a controller is a process of its own here: bolide controller, and enableControllerMode for its brokers"
)
_ENGINE: Final = "queues and tables are kept in RocketMQ's files only, and a store in RocksDB would not be read"

UNKEPT: Final[dict[str, tuple[str, str]]] = {
    "aclEnable": ("false", _NAMESRV),
    "authenticationEnabled": ("false", _NAMESRV),
    "authorizationEnabled": ("false", _NAMESRV),
    "migrateAuthFromV1Enabled": ("false", _MIGRATION),
    "authenticationProvider": (f"{_AUTH}authentication.provider.DefaultAuthenticationProvider", _USERS),
    "authenticationMetadataProvider": (f"{_AUTH}authentication.provider.LocalAuthenticationMetadataProvider", _USERS),
    "authorizationProvider": (f"{_AUTH}authorization.provider.DefaultAuthorizationProvider", _USERS),
    "authorizationMetadataProvider": (f"{_AUTH}authorization.provider.LocalAuthorizationMetadataProvider", _USERS),
    "tls.server.authClient": (
        "false",
        "certificates of clients are asked for by tls.server.need.client.auth and tls.server.trustCertPath",
    ),
    "enableDLegerCommitLog": ("false", _CONTROLLER),
    "enableControllerInNamesrv": ("false", _CONTROLLER),
    "controllerDLegerPeers": (
        "",
        "controllers find each other in the etcd that controllerStore names, and listen where listenPort says",
    ),
    "storeType": ("default", _ENGINE),
    "rocksdbCQDoubleWriteEnable": ("false", _ENGINE),
    "timerRocksDBEnable": ("false", _ENGINE),
    "transRocksDBEnable": ("false", _ENGINE),
    "readOnlyCommitLogStorePaths": ("", "the log is read from commitlog/ under storePathRootDir only"),
    "defaultMessageRequestMode": ("PULL", "POP consumption is not built yet, so consumers would get nothing"),
    "filterServerNums": (
        "0",
        "filter servers run Java classes; consumers can subscribe with an SQL92 expression or filter in Python",
    ),
    "messageStorePlugIn": ("", "plug-ins of Java's store are Java classes"),
}
"""Key -> the one allowed value, and why others are refused. Upper and lower case are the same. What a daemon has as a
setting, it keeps."""

OF_BROKERS: Final = frozenset({"aclEnable", "authenticationEnabled", "authorizationEnabled"})
"""Of these a name server does not look at the variables, which it may share with a broker."""


def refuse_unkept(texts: Mapping[str, str], origins: Mapping[str, str]) -> None:
    """Raise `ConfigError` for a setting whose promise would not be kept. `origins` says where each text came from."""
    for key in UNKEPT:
        refusal = refusal_of(key, texts.get(key, ""), origins.get(key, ""))
        if refusal:
            raise ConfigError(refusal)


def refusal_of(key: str, text: str, origin: str = "") -> str:
    """Why this value of a key would not be kept; "" when it would, or when the key promises nothing."""
    harmless, reason = UNKEPT.get(key, ("", ""))
    if not reason or text.strip().lower() in ("", harmless.lower()):
        return ""
    where = f" ({origin})" if origin else ""
    advice = f"set it to {harmless} or leave it out" if harmless else "leave it out"
    return f"{key} = {text.strip()}{where} would not be kept: {reason}; {advice}"
