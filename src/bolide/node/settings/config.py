"""Settings of a server: flag, then variable BOLIDE_<KEY>, then file, then default. Records the origin of each value.

Files are RocketMQ's `broker.conf` and `namesrv.conf` (java.util.Properties). Unknown keys cause a warning, as do keys
without effect (`without_effect.py`). An invalid value stops the start with an error that contains the key, the value
and the allowed values. A setting that Bolide cannot honour also stops the start (`unkept.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Mapping
from functools import cache
from typing import Final, Generic, TypeVar

from msgspec import Struct

from bolide.broker.options.composed import BrokerOptions
from bolide.controller.options import ControllerOptions
from bolide.declaration import options_of, settings_of, text_of
from bolide.errors import ConfigError
from bolide.namesrv.options import NamesrvOptions
from bolide.node.settings.unkept import OF_BROKERS, UNKEPT, refuse_unkept
from bolide.node.settings.without_effect import warnings_of, without_effect
from bolide.remoting.live_options import HIDDEN, SECRETS
from bolide.remoting.properties_text import read_properties_utf8
from bolide.transport.address import NAMESRV_VARIABLES

Options = TypeVar("Options", bound=Struct)
Options_co = TypeVar("Options_co", bound=Struct, covariant=True)
PREFIX: Final = "BOLIDE_"
OFF: Final = frozenset({"", "false"})
NOT_SETTINGS: Final = frozenset(
    {
        *("BOLIDE_BUILD", "BOLIDE_CACHE", "BOLIDE_IMPL"),
        *("BOLIDE_ACCESS_KEY", "BOLIDE_SECRET_KEY"),
        *("BOLIDE_REGISTRY", "BOLIDE_REGISTRY_CERT_PATH", "BOLIDE_REGISTRY_PASSWORD", "BOLIDE_REGISTRY_USER"),
        "BOLIDE_COMPLETION_LIMIT",
        "BOLIDE_SPARK_CACHE",
    }
)
"""Variables with this prefix that belong to the build, the project's tools, clients, the command line or Spark."""
DAEMONS: Final = (BrokerOptions, NamesrvOptions, ControllerOptions)
"""Kinds of servers. Servers of one host, such as the servers of `bolide standalone`, often share an environment, so a
setting of one kind is not an error for the others."""

ALIASES: Final = {
    "useTLS": "tlsEnable",
    "clientChannelExpiredTime": "channelExpiredTimeout",
    "tls.server.mode": "tlsMode",
    "tls.server.certPath": "tlsCertPath",
    "tls.server.keyPath": "tlsKeyPath",
    "tls.server.keyPassword": "tlsKeyPassword",
    "tls.server.trustCertPath": "tlsTrustCertPath",
    "tls.server.need.client.auth": "tlsNeedClientAuth",
    "tls.enable": "tlsEnable",
    "tls.client.authServer": "tlsClientAuthServer",
    "tls.client.trustCertPath": "tlsClientTrustCertPath",
    "tls.client.certPath": "tlsClientCertPath",
    "tls.client.keyPath": "tlsClientKeyPath",
    "tls.client.keyPassword": "tlsClientKeyPassword",
}
"""Aliases of settings: RocketMQ's system properties and keys of tls.properties (TlsSystemConfig), its client's name for
tlsEnable, and a former name in Bolide."""


class Loaded(Generic[Options_co]):
    """Options in force, their origins, and warnings about the sources."""

    def __init__(self, options: Options_co, origins: dict[str, str], warnings: list[str]) -> None:
        self.options = options
        self.origins = origins
        """By key: "flag", "variable BOLIDE_X", "file PATH" or "default"."""
        self.warnings = warnings


def load_options(
    kind: type[Options],
    flags: Mapping[str, object] | None = None,
    path: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded[Options]:
    """Return the options of this kind from all sources. `flags`: values by key, or None for flags that are not given.

    Raises `ConfigError` for an unreadable file, an invalid value, or a setting that cannot be honoured.
    """
    variables = os.environ if environ is None else environ
    settings = settings_of(kind)
    idle = without_effect(kind)
    known = settings.keys() | UNKEPT.keys() | idle.keys()
    texts: dict[str, str] = {}
    origins = dict.fromkeys(settings, "default")
    warnings: list[str] = []
    for variable in reversed(NAMESRV_VARIABLES):
        # RocketMQ's broker reads this variable before its file, which takes precedence.
        if "namesrvAddr" in settings and variables.get(variable):
            texts["namesrvAddr"], origins["namesrvAddr"] = variables[variable], f"variable {variable}"
    for written, value in (read_conf(path) if path else {}).items():
        key = ALIASES.get(written, written)
        if key in known:
            texts[key], origins[key] = value, f"file {path}"
        else:
            warnings.append(f"{path}: the key {key!r} is not known here and has no effect")
    by_variable = {variable_name(key): key for key in known if key in settings or key not in OF_BROKERS}
    for name in sorted(variables):
        if not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue
        named = by_variable.get(name)
        if named is not None:
            texts[named], origins[named] = variables[name], f"variable {name}"
        elif name not in _variables_of_daemons():
            warnings.append(f"the variable {name} names no setting of this daemon and has no effect")
    for written, given in (flags or {}).items():
        if given is None:
            continue
        key = ALIASES.get(written, written)
        if key not in known:
            raise ConfigError(f"{written} is not a setting of this daemon: bolide config show lists them")
        texts[key], origins[key] = text_of(given), "flag"
    _default_acl_folder(texts, origins, settings, variables)
    refuse_unkept({key: text for key, text in texts.items() if key not in settings}, origins)
    # A setting that is disabled or empty needs no warning.
    asked = {key: origins[key] for key, text in texts.items() if key in idle and text.strip().lower() not in OFF}
    warnings += warnings_of(asked, kind)
    options = options_of(kind, texts, origins)
    return Loaded(options, {key: origins[key] for key in settings}, warnings)


@cache
def _variables_of_daemons() -> frozenset[str]:
    """Return the variables of settings of any server, because one environment may serve several."""
    return frozenset(variable_name(key) for kind in DAEMONS for key in settings_of(kind))


def _default_acl_folder(
    texts: dict[str, str], origins: dict[str, str], settings: Container[str], variables: Mapping[str, str]
) -> None:
    """Set `aclFolder` from ROCKETMQ_HOME if it is not given, as RocketMQ 4.9 does (docs/protocol/acl.md 2)."""
    if "aclFolder" not in settings or "aclFolder" in texts or texts.get("aclEnable", "").strip().lower() != "true":
        return
    home = variables.get("ROCKETMQ_HOME", "")
    if home:
        texts["aclFolder"], origins["aclFolder"] = os.path.join(home, "conf"), "variable ROCKETMQ_HOME"


def load_daemon(
    kind: type[Options],
    flags: Mapping[str, object] | None,
    conf: str | None,
    kept: Callable[[Options], str],
    environ: Mapping[str, str] | None = None,
) -> tuple[Loaded[Options], str]:
    """Return the options of a server, and the path of the file that stores changes made at run time.

    As in RocketMQ, that is the file `conf` with which the server was started. Without `conf` it is the file that `kept`
    returns, which is read instead if it exists. Raises the same errors as `load_options`.
    """
    loaded = load_options(kind, flags, conf, environ)
    if conf is not None:
        return loaded, conf
    path = kept(loaded.options)
    if os.path.exists(path):
        loaded = load_options(kind, flags, path, environ)
    return loaded, path


def read_conf(path: str) -> dict[str, str]:
    """Return the keys and values of a .conf file, by the rules of Java's Properties."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigError(f"the configuration file {path} cannot be read: {error.strerror or error}") from error
    try:
        return read_properties_utf8(data)
    except ValueError as error:
        raise ConfigError(f"the configuration file {path} cannot be read: {error}") from None


def variable_name(key: str) -> str:
    """Return the environment variable of a key: `flushDiskType` -> `BOLIDE_FLUSH_DISK_TYPE`."""
    return PREFIX + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).upper()


def shown(key: str, value: object) -> str:
    """Return the value of a setting as written in a file. Secrets are masked."""
    return HIDDEN if value and key in SECRETS else text_of(value)
