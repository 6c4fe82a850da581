"""Declares settings, and checks their values from every source in one place.

A setting is a field of a struct of options:

    RETENTION = Section("Retention")

    file_reserved_time: Annotated[Hours, RETENTION("Time a log file is kept after its last change.", live=True)] = 72

The field specifies the type and the default. The `msgspec.Meta` of the type specifies the unit and the range. The
section's arguments describe the setting: its effect, whether it can change while the daemon runs (`live`), and
RocketMQ's default if it differs (`java`). The key in a `.conf` file is RocketMQ's (`java_key`). Loader, command line,
GET_BROKER_CONFIG and docs/settings.md use only these declarations.

A daemon with many settings composes its options: each field is a struct of options, and the package that reads these
settings declares it. Files and flags name settings without their part: `settings_of` lists all parts together, and
`options_of`, `with_values` and `values_in` convert between both forms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo, replace

from bolide.errors import ConfigError

Options = TypeVar("Options", bound=Struct)
Value = bool | int | str
OURS: Final = "-"
"""Value of `java` for a setting that RocketMQ does not have."""
NO_ORIGINS: Final[Mapping[str, str]] = {}
SAME: Final = ""
"""Value of `java` if RocketMQ has the same default."""
_MAX_QUOTED: Final = 60
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_IRREGULAR: Final = {
    "broker_ip1": "brokerIP1",
    "broker_ip2": "brokerIP2",
    "check_crc_on_recover": "checkCRCOnRecover",
    "enabled_append_prop_crc": "enabledAppendPropCRC",
    "force_verify_prop_crc": "forceVerifyPropCRC",
}

_YEAR_MS: Final = 86_400_000 * 366
_MANY: Final = 1 << 31
Ms = Annotated[int, Meta(ge=0, le=_YEAR_MS, extra={"unit": "ms"})]
Timestamp = Annotated[int, Meta(ge=0, le=1 << 53, extra={"unit": "ms since the epoch"})]
PositiveMs = Annotated[int, Meta(ge=1, le=_YEAR_MS, extra={"unit": "ms"})]
Seconds = Annotated[int, Meta(ge=0, le=86_400, extra={"unit": "s"})]
PositiveSeconds = Annotated[int, Meta(ge=1, le=_MANY, extra={"unit": "s"})]
Hours = Annotated[int, Meta(ge=1, le=_MANY, extra={"unit": "h"})]
Bytes = Annotated[int, Meta(ge=0, le=1 << 40, extra={"unit": "bytes"})]
PositiveBytes = Annotated[int, Meta(ge=1, le=_MANY, extra={"unit": "bytes"})]
Count = Annotated[int, Meta(ge=0, le=_MANY)]
PositiveCount = Annotated[int, Meta(ge=1, le=_MANY)]
Percent = Annotated[int, Meta(ge=0, le=100, extra={"unit": "percent"})]
Port = Annotated[int, Meta(ge=0, le=65535, extra={"unit": "port"})]


class About(Struct, frozen=True):
    """Description of a setting: its section, its effect, whether it can change at run time, and RocketMQ's default."""

    section: str
    text: str
    live: bool
    java: str


class Section(Struct, frozen=True):
    """A group of settings. Called in a field's annotation, it describes the setting."""

    title: str

    def __call__(self, text: str, *, live: bool = False, java: str = SAME) -> About:
        """Describe a setting. `live`: it can change at run time. `java`: RocketMQ's default, or `OURS`."""
        return About(self.title, text, live, java)


class Setting(Struct, frozen=True):
    """One declared setting."""

    key: str
    """RocketMQ's name, as in a `.conf` file."""
    name: str
    """Name of the field."""
    part: str
    """The field of the composed options whose struct declares the setting. Empty if the options are one struct."""
    type: Any
    default: Value
    about: About
    unit: str = ""
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()

    @property
    def range(self) -> str:
        """Description of the valid values."""
        if self.choices:
            return " or ".join(choice if choice else "nothing" for choice in self.choices)
        if self.type is bool:
            return "true or false"
        if isinstance(self.default, int):
            low = "" if self.low is None else f" from {self.low}"
            high = "" if self.high is None else f" to {self.high}"
            return f"a whole number{low}{high}" + (f" ({self.unit})" if self.unit else "")
        return "text"


def java_key(name: str) -> str:
    """Return the key in a `.conf` file for a field: `flush_disk_type` -> `flushDiskType`."""
    if name in _IRREGULAR:
        return _IRREGULAR[name]
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


class DeclaredOptions(Struct, frozen=True, kw_only=True, rename=java_key):
    """Base class of a struct of settings. Raises `ConfigError` for a value that its declaration does not allow."""

    def __post_init__(self) -> None:
        check_values(self)


@cache
def settings_of(kind: type[Struct]) -> dict[str, Setting]:
    """Return the settings that a struct or its parts declare, by key, section by section.

    Raises `TypeError` if two parts declare the same setting.
    """
    parts = parts_of(kind)
    if "" in parts:
        found = [_declared(field, _hints(kind)[field.name]) for field in msgspec.structs.fields(kind)]
    else:
        found = [replace(setting, part=name) for name, part in parts.items() for setting in settings_of(part).values()]
    if len({setting.key for setting in found}) < len(found):
        raise TypeError(f"two parts of {kind.__name__} declare one setting")
    sections = list(dict.fromkeys(setting.about.section for setting in found))
    return {setting.key: setting for title in sections for setting in found if setting.about.section == title}


@cache
def parts_of(kind: type[Struct]) -> dict[str, type[Struct]]:
    """Return the structs that `kind` is composed of, by field, or `{"": kind}` if it declares settings itself."""
    hints = ((name, _hints(kind)[name]) for name in kind.__struct_fields__)
    structs = {name: hint for name, hint in hints if isinstance(hint, type) and issubclass(hint, Struct)}
    return structs or {"": kind}


@cache
def _hints(kind: type[Struct]) -> dict[str, Any]:
    """Return the evaluated annotations of a struct. Cached, because this takes most of the time that a start needs for
    its settings."""
    return get_type_hints(kind, include_extras=True)


def _declared(field: FieldInfo, hint: Any) -> Setting:
    base, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    (about,) = (extra for extra in extras if isinstance(extra, About))
    unit, low, high = "", None, None
    for meta in extras:
        if isinstance(meta, Meta):
            unit = (meta.extra or {}).get("unit", unit)
            low, high = cast("int | None", meta.ge), cast("int | None", meta.le)
    choices = get_args(base) if get_origin(base) is Literal else ()
    default = cast("Value", field.default)
    return Setting(field.encode_name, field.name, "", base, default, about, unit, low, high, choices)


def value_of(setting: Setting, text: str, origin: str) -> Value:
    """Convert a text from a file, variable or flag to a value.

    Raises `ConfigError` with key, value, origin and the valid values.
    """
    text = text.strip()
    try:
        if setting.type is bool:
            value: Value = {"true": True, "false": False}[text.lower()]
        else:
            value = _whole(text) if setting.type is int else text
    except (KeyError, ValueError):
        raise _refusal(setting, text, origin) from None
    if not _allowed(setting, value):
        raise _refusal(setting, text, origin)
    return value


def values_of(
    kind: type[Struct], texts: Mapping[str, str], origins: Mapping[str, str] = NO_ORIGINS
) -> dict[str, Value]:
    """Return the values of these texts, by field name. Ignores keys that `kind` does not declare.

    `origins` contains the source of each key's text. Raises `ConfigError`.
    """
    settings = settings_of(kind)
    return {
        settings[key].name: value_of(settings[key], text, origins.get(key, ""))
        for key, text in texts.items()
        if key in settings
    }


def options_of(kind: type[Options], texts: Mapping[str, str], origins: Mapping[str, str] = NO_ORIGINS) -> Options:
    """Return options with the values of `values_of`, and the declared defaults. Raises `ConfigError`."""
    return with_values(kind(), values_of(kind, texts, origins))


def changed(options: Options, texts: Mapping[str, str], origin: str) -> Options:
    """Return a copy of the options with these settings changed. Raises `ConfigError`."""
    return with_values(options, values_of(type(options), texts, dict.fromkeys(texts, origin)))


def with_values(options: Options, values: Mapping[str, Any]) -> Options:
    """Return the options with these values, by field name, in whichever part declares the field.

    Raises `ConfigError` for a value that is not allowed, `TypeError` for a name that no part declares.
    """
    parts = parts_of(type(options))
    if "" in parts:
        return msgspec.structs.replace(options, **values)
    left = dict(values)
    altered: dict[str, Struct] = {}
    for name, kind in parts.items():
        own = {field: left.pop(field) for field in kind.__struct_fields__ if field in left}
        if own:
            altered[name] = msgspec.structs.replace(getattr(options, name), **own)
    if left:
        raise TypeError(f"{type(options).__name__} has no setting {', '.join(sorted(left))}")
    return msgspec.structs.replace(options, **altered)


def values_in(options: Struct) -> dict[str, Value]:
    """Return the values by key, in the order of `settings_of`."""
    settings = settings_of(type(options))
    return {
        key: getattr(getattr(options, setting.part) if setting.part else options, setting.name)
        for key, setting in settings.items()
    }


def check_values(options: Struct) -> None:
    """Raise `ConfigError` for a field whose value its declaration does not allow."""
    for setting in settings_of(type(options)).values():
        check_value(setting, getattr(options, setting.name))


def check_value(setting: Setting, value: object) -> None:
    """Raise `ConfigError` for a value that the declaration does not allow."""
    if not _allowed(setting, value):
        raise _refusal(setting, text_of(value))


def text_of(value: object) -> str:
    """Return a value as in a `.conf` file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _whole(text: str) -> int:
    """Parse an integer as RocketMQ does, which rejects Python's `1_000`. Raises `ValueError`."""
    if not _WHOLE.fullmatch(text):
        raise ValueError
    return int(text)


def _allowed(setting: Setting, value: object) -> bool:
    if setting.choices:
        return value in setting.choices
    if type(value) is not setting.type:
        return False
    if isinstance(value, int):
        return (setting.low is None or value >= setting.low) and (setting.high is None or value <= setting.high)
    return True


def _refusal(setting: Setting, text: str, origin: str = "") -> ConfigError:
    quoted = text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "…"
    where = f" ({origin})" if origin else ""
    return ConfigError(f"{setting.key} = {quoted!r}{where} is not allowed: it must be {setting.range}")
