"""Accounts of ACL 1 in `plain_acl.yml` and the files of the folder `acl/` (docs/protocol/acl.md 2).

A file is loaded completely or not at all: unreadable parts and unknown keys raise an error that names them. No error
contains a secret.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeAlias

from bolide.access.addresses import BadAddress, Matches, matcher
from bolide.errors import ConfigError
from bolide.layout.names import RETRY_PREFIX

Yaml: TypeAlias = "str | list[Yaml] | dict[str, Yaml] | None"
"""A YAML document in which every scalar is a string, as PyYAML's BaseLoader reads it."""
LONGER_THAN: Final = 6
MOST_FILE_BYTES: Final = 1 << 20
MOST_FILES: Final = 100
TRUE: Final = frozenset({"true", "yes", "on"})
FALSE: Final = frozenset({"", "false", "no", "off"})
FILE_KEYS: Final = frozenset({"globalWhiteRemoteAddresses", "accounts", "dataVersion"})
ACCOUNT_KEYS: Final = frozenset(
    "accessKey secretKey whiteRemoteAddress admin defaultTopicPerm defaultGroupPerm topicPerms groupPerms".split()
)


class BadAccounts(Exception):
    """An invalid account file. The message names the file and the position, and contains no secret."""


class Perm(enum.Flag):
    """Permissions of an account on a topic or group. An empty value is DENY."""

    DENY = 0
    PUB = 1
    SUB = 2


PERMS: Final = {
    "DENY": Perm.DENY,
    "PUB": Perm.PUB,
    "SUB": Perm.SUB,
    "PUB|SUB": Perm.PUB | Perm.SUB,
    "SUB|PUB": Perm.PUB | Perm.SUB,
}


@dataclass(frozen=True, slots=True)
class Account:
    """One account. `perms` contains its permissions by topic. A group has the permissions of its retry topic.

    The other fields are the entries of the file: `trusted` matches addresses whose requests need no signature, and
    `topic_perm` and `group_perm` apply to topics and groups without an entry.
    """

    key: str
    secret: str = field(repr=False)
    trusted: Matches
    admin: bool
    topic_perm: Perm
    group_perm: Perm
    perms: Mapping[str, Perm]

    def may(self, name: str, perm: Perm) -> bool:
        """Return whether the account has this permission on a topic. A group is given as its retry topic."""
        default = self.group_perm if name.startswith(RETRY_PREFIX) else self.topic_perm
        return bool(self.perms.get(name, default) & perm)


@dataclass(frozen=True, slots=True)
class Accounts:
    """All accounts of a broker, and the addresses whose requests need no signature."""

    trusted: tuple[Matches, ...] = ()
    by_key: Mapping[str, Account] = field(default_factory=dict)
    twice: tuple[str, ...] = ()
    """Keys that occur more than once. The first account with a key applies."""


def read_accounts(files: Iterable[tuple[str, bytes]]) -> Accounts:
    """Read the accounts of these files, in this order. Raises `BadAccounts`, and `ConfigError` if PyYAML is missing."""
    trusted: list[Matches] = []
    accounts: dict[str, Account] = {}
    twice: list[str] = []
    for name, data in files:
        document = _document(name, data)
        _known(document, FILE_KEYS, name)
        trusted += [_address(text, name) for text in _texts(document, "globalWhiteRemoteAddresses", name)]
        listed = document.get("accounts") or []
        if not isinstance(listed, list):
            raise BadAccounts(f"{name}: accounts is not a list")
        for number, each in enumerate(listed, 1):
            account = _account(each, f"{name}, account {number}")
            if account.key in accounts:
                twice.append(account.key)
            else:
                accounts[account.key] = account
    return Accounts(tuple(trusted), accounts, tuple(twice))


def _document(name: str, data: bytes) -> dict[str, Yaml]:
    if len(data) > MOST_FILE_BYTES:
        raise BadAccounts(f"{name} has more than {MOST_FILE_BYTES} bytes")
    try:
        import yaml
    except ImportError:
        raise ConfigError("aclEnable = true needs PyYAML: pip install 'bolide[server]'") from None
    try:
        found = yaml.load(data, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise BadAccounts(f"{name} is not valid YAML{'' if mark is None else f' at line {mark.line + 1}'}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise BadAccounts(f"{name} is not valid YAML") from None
    if found is None or found == "":
        return {}
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise BadAccounts(f"{name} is not a table of names and values")
    return found


@cache
def _loader() -> Any:
    """Return PyYAML's BaseLoader, changed to treat tabs in a plain scalar as SnakeYAML 1.30 does: as blanks that do
    not end the scalar."""
    import yaml

    class Loader(yaml.BaseLoader):  # type: ignore[misc] # PyYAML has no types
        def scan_plain_spaces(self, indent: int, start_mark: object) -> Any:
            length = 0
            while self.peek(length) in (" ", "\t"):
                length += 1
            blanks = self.prefix(length)
            if "\t" not in blanks:
                return super().scan_plain_spaces(indent, start_mark)
            self.forward(length)
            if self.peek() in "\0\r\n\x85\u2028\u2029":
                return super().scan_plain_spaces(indent, start_mark)
            return [blanks]

    return Loader


def _account(row: Yaml, where: str) -> Account:
    if not isinstance(row, dict):
        raise BadAccounts(f"{where}: it is not a table of names and values")
    _known(row, ACCOUNT_KEYS, where)
    key, secret = _text(row, "accessKey", where), _text(row, "secretKey", where)
    if len(key) <= LONGER_THAN or len(secret) <= LONGER_THAN:
        raise BadAccounts(f"{where}: accessKey and secretKey must be longer than {LONGER_THAN} characters")
    admin = _text(row, "admin", where).lower()
    if admin not in TRUE | FALSE:
        raise BadAccounts(f"{where}: admin must be true or false")
    return Account(
        key,
        secret,
        _address(_text(row, "whiteRemoteAddress", where), where),
        admin in TRUE,
        PERMS.get(_text(row, "defaultTopicPerm", where), Perm.DENY),
        PERMS.get(_text(row, "defaultGroupPerm", where), Perm.DENY),
        {**_perms(row, "topicPerms", "", where), **_perms(row, "groupPerms", RETRY_PREFIX, where)},
    )


def _perms(row: Mapping[str, Yaml], key: str, prefix: str, where: str) -> dict[str, Perm]:
    found = {}
    for text in _texts(row, key, where):
        name, _, word = text.partition("=")
        if text.count("=") != 1 or not name.strip():
            raise BadAccounts(f"{where}: {key} has {text!r}, which is not name=permission")
        found[prefix + name.strip()] = PERMS.get(word.strip(), Perm.DENY)
    return found


def _address(text: str, where: str) -> Matches:
    try:
        return matcher(text)
    except BadAddress:
        raise BadAccounts(f"{where}: {text!r} is not an address or a range of addresses") from None


def _known(row: Mapping[str, Yaml], keys: frozenset[str], where: str) -> None:
    unknown = sorted(key for key in row if key not in keys)
    if unknown:
        raise BadAccounts(f"{where}: unknown keys {', '.join(map(repr, unknown))}")


def _text(row: Mapping[str, Yaml], key: str, where: str) -> str:
    value = row.get(key) or ""
    if not isinstance(value, str):
        raise BadAccounts(f"{where}: {key} is not a text")
    return value.strip()


def _texts(row: Mapping[str, Yaml], key: str, where: str) -> list[str]:
    value = row.get(key) or []
    if not isinstance(value, list):
        raise BadAccounts(f"{where}: {key} is not a list")
    texts = [text for text in value if isinstance(text, str)]
    if len(texts) != len(value):
        raise BadAccounts(f"{where}: {key} is not a list of texts")
    return texts
