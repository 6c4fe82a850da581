"""Settings of RocketMQ that ask for something Bolide does not do yet: any value but the harmless one stops the start.

A key that only tunes something gets a warning instead (`store.options.IGNORED`, unknown keys). These are different: an
operator who sets `aclEnable=true` relies on it, so a broker that lets everybody in must not start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bolide.errors import ConfigError

_REPLICAS: Final = "this broker does not replicate yet, so a message is on one machine only"
_ACCESS: Final = "access control is not built yet, so anyone who reaches the port may do anything"
_CONTROLLER: Final = "there is no controller mode yet, so nothing would elect or fence a master"
_ENGINE: Final = "queues and tables are kept in RocketMQ's files only, and a store in RocksDB would not be read"

UNKEPT: Final[dict[str, tuple[str, str]]] = {
    "aclEnable": ("false", _ACCESS),
    "authenticationEnabled": ("false", _ACCESS),
    "authorizationEnabled": ("false", _ACCESS),
    "tls.server.authClient": (
        "false",
        "certificates of clients are asked for by tls.server.need.client.auth and tls.server.trustCertPath",
    ),
    "brokerRole": ("ASYNC_MASTER", _REPLICAS),
    "brokerId": ("0", _REPLICAS),
    "inSyncReplicas": ("1", _REPLICAS),
    "minInSyncReplicas": ("1", _REPLICAS),
    "allAckInSyncStateSet": ("false", _REPLICAS),
    "enableAutoInSyncReplicas": ("false", _REPLICAS),
    "enableSlaveActingMaster": ("false", _REPLICAS),
    "enableRemoteEscape": ("false", _REPLICAS),
    "enableDLegerCommitLog": ("false", _CONTROLLER),
    "enableControllerMode": ("false", _CONTROLLER),
    "enableControllerInNamesrv": ("false", _CONTROLLER),
    "storeType": ("default", _ENGINE),
    "rocksdbCQDoubleWriteEnable": ("false", _ENGINE),
    "timerRocksDBEnable": ("false", _ENGINE),
    "transRocksDBEnable": ("false", _ENGINE),
    "messageStorePlugIn": ("", "plug-ins of Java's store are Java classes"),
}
"""Key -> the one allowed value, and why others are refused. Upper and lower case are the same."""


def refuse_unkept(texts: Mapping[str, str], origins: Mapping[str, str]) -> None:
    """Raise `ConfigError` for a setting whose promise would not be kept. `origins` says where each text came from."""
    for key, (harmless, reason) in UNKEPT.items():
        text = texts.get(key)
        if text is None or text.strip().lower() in ("", harmless.lower()):
            continue
        where = f" ({origins[key]})" if key in origins else ""
        advice = f"set it to {harmless} or leave it out" if harmless else "leave it out"
        raise ConfigError(f"{key} = {text.strip()}{where} would not be kept: {reason}; {advice}")
