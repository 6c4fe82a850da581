"""Settings of RocketMQ that request a feature that Bolide lacks: any value except the harmless one stops the start.

A key that only tunes an implementation causes a warning instead (`node/settings/without_effect.py`). These keys are
different: an operator who sets `storeType=defaultRocksDB` relies on it, so a broker with another store must not start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bolide.errors import ConfigError

_MIGRATION: Final = "accounts of plain_acl.yml are not converted to users: use aclEnable, or create the users"
_NAMESRV: Final = "a name server does not authenticate clients, as in RocketMQ; only brokers support this"
_USERS: Final = "users and policies are stored in the broker's files, and another provider class would be ignored"
_AUTH: Final = "org.apache.rocketmq.auth."
_CONTROLLER: Final = (
    "the controller is a separate process: run bolide controller, and set enableControllerMode on its brokers"
)
_ENGINE: Final = "queues and tables are stored in RocketMQ's files only, and a RocksDB store would be ignored"

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
        "client certificates are required by tls.server.need.client.auth and tls.server.trustCertPath",
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
    "defaultMessageRequestMode": ("PULL", "POP consumption is not built yet, so consumers would not receive messages"),
    "filterServerNums": (
        "0",
        "filter servers run Java classes; consumers can subscribe with an SQL92 expression or filter in Python",
    ),
    "messageStorePlugIn": ("", "plug-ins of Java's store are Java classes"),
}
"""Key -> the only allowed value, and why others are rejected. Case is ignored. If a server has such a setting, this
table does not apply."""

OF_BROKERS: Final = frozenset({"aclEnable", "authenticationEnabled", "authorizationEnabled"})
"""Keys whose environment variables a name server ignores, because it may share them with a broker."""


def refuse_unkept(texts: Mapping[str, str], origins: Mapping[str, str]) -> None:
    """Raise `ConfigError` for a setting that cannot be honoured. `origins`: source of each text."""
    for key in UNKEPT:
        refusal = refusal_of(key, texts.get(key, ""), origins.get(key, ""))
        if refusal:
            raise ConfigError(refusal)


def refusal_of(key: str, text: str, origin: str = "") -> str:
    """Return why this value of a key cannot be honoured, or "" if it can."""
    harmless, reason = UNKEPT.get(key, ("", ""))
    if not reason or text.strip().lower() in ("", harmless.lower()):
        return ""
    where = f" ({origin})" if origin else ""
    advice = f"set it to {harmless} or leave it out" if harmless else "leave it out"
    return f"{key} = {text.strip()}{where} is not supported: {reason}; {advice}"
