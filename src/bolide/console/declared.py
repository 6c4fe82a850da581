"""Joins the settings that a daemon reports with Bolide's declarations. Only this module of the console uses them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bolide.broker.options.composed import BrokerOptions
from bolide.console.render import MASKED
from bolide.declaration import Setting, settings_of
from bolide.namesrv.options import NamesrvOptions

_SECRET: Final = re.compile(r"password|secret|credential|initAuthenticationUser", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting in effect. `about` is None if Bolide does not declare it."""

    key: str
    value: str
    default: str
    about: Setting | None

    @property
    def changed(self) -> bool:
        """Whether the value differs from the default. False for undeclared settings."""
        return self.about is not None and self.value != self.default

    @property
    def live(self) -> bool:
        """Whether the setting can change while the daemon runs."""
        return self.about is not None and self.about.about.live

    @property
    def text(self) -> str:
        """Description of the setting, or "" if it is undeclared."""
        return self.about.about.text if self.about is not None else ""

    @property
    def section(self) -> str:
        """Section of the setting in docs/settings.md."""
        return self.about.about.section if self.about is not None else "Others"


def rows_of(told: Mapping[str, str], of_namesrv: bool) -> list[SettingRow]:
    """Return the rows of all settings that a daemon reported, in the order of their declarations. Masks secrets."""
    declared = settings_of(NamesrvOptions if of_namesrv else BrokerOptions)
    order = {key: number for number, key in enumerate(declared)}
    rows = []
    for key in sorted(told, key=lambda key: (order.get(key, len(order)), key)):
        about = declared.get(key)
        value = MASKED if told[key] and _SECRET.search(key) else told[key]
        rows.append(SettingRow(key, value, text_of(about.default) if about is not None else "", about))
    return rows


def text_of(value: object) -> str:
    """Return a value as a configuration file contains it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
