"""Settings of a daemon: flag, then variable BOLIDE_<KEY>, then file, then default; the origin of each value is kept.

Files are Java's `broker.conf` and `namesrv.conf` (java.util.Properties). Unknown keys warn, since a file written for
Java has keys we do not know; a bad value stops the start and names the key, the value and what is allowed. So does a
setting whose promise would not be kept (`node.unkept`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from bolide.errors import ConfigError
from bolide.node.settings.unkept import UNKEPT, refuse_unkept
from bolide.remoting.properties_text import read_properties_utf8
from bolide.transport.address import NAMESRV_VARIABLES

Options = TypeVar("Options", bound=msgspec.Struct)
PREFIX: Final = "BOLIDE_"
NOT_SETTINGS: Final = frozenset({"BOLIDE_BUILD", "BOLIDE_IMPL"})
"""Variables that begin alike and belong to the build."""

JAVA_PROPERTIES: Final = {
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
"""What Java takes as system properties or from tls.properties (TlsSystemConfig), and we from the daemon's own file."""
SECRETS: Final = frozenset({"tlsKeyPassword", "tlsClientKeyPassword"})
"""Keys whose value is never shown."""


class Loaded(Generic[Options]):
    """Options in force, where each came from, and what was odd about the sources."""

    def __init__(self, options: Options, origins: dict[str, str], warnings: list[str], given: dict[str, str]) -> None:
        self.options = options
        self.origins = origins
        """By Java key: "flag", "variable BOLIDE_X", "file PATH" or "default"."""
        self.warnings = warnings
        self.given = given
        """The text of every value that is not a default, by Java key."""


def load_options(
    kind: type[Options],
    flags: Mapping[str, object] | None = None,
    path: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded[Options]:
    """Options of this kind from all sources. `flags` has Java keys; None values count as not given.

    Raises `ConfigError` for an unreadable file, a bad value or a setting that would not be kept.
    """
    variables = os.environ if environ is None else environ
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    known = fields.keys() | UNKEPT.keys()
    texts: dict[str, str] = {}
    origins = dict.fromkeys(fields, "default")
    warnings: list[str] = []
    for variable in reversed(NAMESRV_VARIABLES):
        # Java's broker looks here before it reads its file, which says better.
        if "namesrvAddr" in fields and variables.get(variable):
            texts["namesrvAddr"], origins["namesrvAddr"] = variables[variable], f"variable {variable}"
    for written, value in (read_conf(path) if path else {}).items():
        key = JAVA_PROPERTIES.get(written, written)
        if key in known:
            texts[key], origins[key] = value, f"file {path}"
        else:
            warnings.append(f"{path}: the key {key!r} is not known here and has no effect")
    by_variable = {variable_name(key): key for key in known}
    for name in sorted(variables):
        if not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue
        named = by_variable.get(name)
        if named is None:
            warnings.append(f"the variable {name} names no setting of this daemon and has no effect")
        else:
            texts[named], origins[named] = variables[name], f"variable {name}"
    for key, given in (flags or {}).items():
        if given is None:
            continue
        if key not in known:
            raise ConfigError(f"{key} is no setting of this daemon")
        texts[key], origins[key] = flag_text(given), "flag"
    refuse_unkept(texts, origins)
    texts = {key: text for key, text in texts.items() if key in fields}
    values = {key: convert(fields[key], text, origins[key]) for key, text in texts.items()}
    options = kind(**{fields[key].name: value for key, value in values.items()})
    return Loaded(options, {key: origins[key] for key in fields}, warnings, texts)


def load_daemon(
    kind: type[Options],
    flags: Mapping[str, object] | None,
    conf: str | None,
    kept: Callable[[Options], str],
    environ: Mapping[str, str] | None = None,
) -> tuple[Loaded[Options], str]:
    """Options of a daemon, and the path of the file in which changes made while it runs are kept.

    That is `conf`, the file it is started with, as in RocketMQ; without one, the file that `kept` names, which is then
    read in its place once it exists. Raises as `load_options`.
    """
    loaded = load_options(kind, flags, conf, environ)
    if conf is not None:
        return loaded, conf
    path = kept(loaded.options)
    if os.path.exists(path):
        loaded = load_options(kind, flags, path, environ)
    return loaded, path


def read_conf(path: str) -> dict[str, str]:
    """The keys of a .conf file, by the rules of Java's Properties."""
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
    """The environment variable of a key: `flushDiskType` -> `BOLIDE_FLUSH_DISK_TYPE`."""
    return PREFIX + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).upper()


def shown(key: str, value: object) -> str:
    """A setting's value for people, as it would stand in a file; of a secret only that it is set."""
    return "******" if value and key in SECRETS else flag_text(value)


def flag_text(value: object) -> str:
    """A flag's value as it would stand in a file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def convert(field: msgspec.structs.FieldInfo, text: str, origin: str) -> Any:
    """The value of one setting. Raises `ConfigError` naming key, value, origin and what is allowed."""
    text = text.strip()
    try:
        if field.type is bool:
            lowered = text.lower()
            if lowered not in ("true", "false"):
                raise ValueError
            return lowered == "true"
        return msgspec.convert(text, field.type, strict=False)
    except (msgspec.ValidationError, ValueError):
        quoted = text if len(text) <= 60 else text[:60] + "…"
        message = f"{field.encode_name} = {quoted!r} ({origin}) is not allowed: it must be {allowed(field)}"
        raise ConfigError(message) from None


def allowed(field: msgspec.structs.FieldInfo) -> str:
    """What a setting may be, in words."""
    kind = msgspec.inspect.type_info(field.type)
    unit = ""
    while isinstance(kind, msgspec.inspect.Metadata):
        unit = (kind.extra or {}).get("unit", unit)
        kind = kind.type
    if isinstance(kind, msgspec.inspect.LiteralType):
        return " or ".join(str(value) for value in kind.values)
    if isinstance(kind, msgspec.inspect.BoolType):
        return "true or false"
    if isinstance(kind, msgspec.inspect.IntType):
        low = "" if kind.ge is None else f" from {kind.ge}"
        high = "" if kind.le is None else f" to {kind.le}"
        named = f" ({unit})" if unit else ""
        return f"a whole number{low}{high}{named}"
    return "text"
