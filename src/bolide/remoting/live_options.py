"""The options of a server, read and changed by requests: GET_NAMESRV_CONFIG, and its equivalent for a controller.

As in RocketMQ, unknown keys are ignored, and an update with a key of the black list is rejected with code 16. An update
with an invalid value is also rejected; RocketMQ silently ignores the value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, Generic, TypeVar

from msgspec import Struct

from bolide.declaration import changed, settings_of, text_of, values_in
from bolide.errors import ConfigError
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.properties_text import read_properties, write_properties

HIDDEN: Final = "******"
"""Shown instead of a secret."""
SECRETS: Final = frozenset(
    {"initAuthenticationUser", "innerClientAuthenticationCredentials", "tlsClientKeyPassword", "tlsKeyPassword"}
)
"""Keys whose value is never shown."""
Options = TypeVar("Options", bound=Struct)


class LiveOptions(ABC, Generic[Options]):
    """The current options, replaced as a whole when an update changes some of them."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._fixed = frozenset(s.key for s in settings_of(type(options)).values() if not s.about.live)

    @abstractmethod
    def listed(self) -> str:
        """Return the black list in the options, separated by `;`."""

    def as_texts(self) -> dict[str, str]:
        """Return the value of every key as text, as in RocketMQ's properties."""
        return {key: text_of(value) for key, value in values_in(self.options).items()}

    def shown_texts(self) -> dict[str, str]:
        """Return `as_texts` for peers, with secrets hidden."""
        texts = self.as_texts()
        return {key: HIDDEN if text and key in SECRETS else text for key, text in texts.items()}

    def black_list(self) -> frozenset[str]:
        """Return the keys that an update may not change: settings that are read only at the start, and the listed keys.
        RocketMQ's rocketmqHome is also included."""
        return self._fixed | {"rocketmqHome"} | {key.strip() for key in self.listed().split(";") if key.strip()}

    def show(self, command: Command) -> Command:
        """Return the response with all settings."""
        return make_response(command, codes.SUCCESS, body=write_properties(self.shown_texts()))

    def update(self, command: Command) -> tuple[Command, dict[str, str]]:
        """Apply the requested changes; return the response, and the changed settings to persist."""
        try:
            given = read_properties(command.body)
        except ValueError as error:
            return make_response(command, codes.SYSTEM_ERROR, f"the properties cannot be read: {error}"), {}
        refused = sorted(self.black_list() & given.keys())
        if refused:
            remark = f"Can not update config in black list. Its keys in this update are {', '.join(refused)}"
            return make_response(command, codes.NO_PERMISSION, remark), {}
        known = self.as_texts()
        changes = {key: value.strip() for key, value in given.items() if key in known and value.strip() != known[key]}
        try:
            self.options = changed(self.options, changes, "the update")
        except ConfigError as error:
            return make_response(command, codes.SYSTEM_ERROR, f"{error}; nothing was changed"), {}
        return make_response(command, codes.SUCCESS), changes
