"""Policies of ACL 2: a user's permissions for topics, groups and clusters, by address (docs/protocol/acl.md 5)."""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from bolide.remoting.bodies.base import Body, encode_body
from bolide.remoting.request_access import Action, Asked, ResourceType

USER_PREFIX: Final = "User:"
MOST_ENTRIES: Final = 1000
"""Maximum number of entries of one user."""


class Pattern(enum.IntEnum):
    """Rule for matching the name of a resource (ResourcePattern.java)."""

    ANY = 1
    LITERAL = 2
    PREFIXED = 3


class Ruling(enum.IntEnum):
    """Decision of an entry."""

    ALLOW = 1
    DENY = 2


class PolicyType(enum.IntEnum):
    """Type of a policy. Entries of the default policy apply only if no custom entry matches."""

    CUSTOM = 1
    DEFAULT = 2


class EntryInfo(Body):
    """One entry on the wire (AclInfo.PolicyEntryInfo)."""

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(Body):
    """The entries of one type on the wire (AclInfo.PolicyInfo)."""

    policy_type: str | None = None
    entries: list[EntryInfo] | None = None


class AclInfo(Body):
    """The policies of a user on the wire (AclInfo.java)."""

    subject: str | None = None
    policies: list[PolicyInfo] = field(default_factory=list)


class BadPolicy(Exception):
    """An invalid policy. The text is RocketMQ's."""


class Resource(Struct, frozen=True):
    """The resource of an entry: `*`, `Topic:name`, `Topic:prefix*`, `Topic:*`."""

    kind: ResourceType
    name: str
    pattern: Pattern

    @staticmethod
    def parse(text: str | None) -> Resource | None:
        """Return the resource in a text, or None if the text is not a resource."""
        if not text or not text.strip():
            return None
        if text == "*":
            return Resource(ResourceType.ANY, "", Pattern.ANY)
        word, _, name = text.partition(":")
        kind = ResourceType.__members__.get(word.upper())
        if kind is None:
            return None
        if name == "*":
            return Resource(kind, "", Pattern.ANY)
        if name.endswith("*"):
            return Resource(kind, name.partition("*")[0], Pattern.PREFIXED)
        return Resource(kind, name, Pattern.LITERAL)

    @property
    def key(self) -> str:
        """Text form of the resource, as `parse` reads it."""
        if self.kind is ResourceType.ANY:
            return "*"
        if self.pattern is Pattern.ANY:
            return f"{self.kind.name.capitalize()}:*"
        return f"{self.kind.name.capitalize()}:{self.name}{'*' if self.pattern is Pattern.PREFIXED else ''}"

    def covers(self, asked: Asked) -> bool:
        """Return whether an entry for this resource applies to the requested resource."""
        if self.kind is ResourceType.ANY:
            return True
        if self.kind is not asked.kind:
            return False
        if self.pattern is Pattern.ANY:
            return True
        return asked.name == self.name if self.pattern is Pattern.LITERAL else asked.name.startswith(self.name)


_SPECIFIC: Final = {Pattern.LITERAL: 0, Pattern.PREFIXED: 1, Pattern.ANY: 2}


class PolicyEntry(Struct, frozen=True):
    """One entry of a policy, which allows or denies actions on a resource."""

    resource: Resource
    actions: tuple[Action, ...]
    source_ips: tuple[str, ...]
    decision: Ruling

    @staticmethod
    def of(info: EntryInfo) -> PolicyEntry:
        """Convert a received entry. Raises `BadPolicy`."""
        resource = Resource.parse(info.resource)
        if resource is None:
            raise BadPolicy("The resource is null.")
        known = Action.__members__
        actions = tuple(known[word.upper()] for word in info.actions or () if word.upper() in known)
        if not actions:
            raise BadPolicy("The actions is empty.")
        if Action.ANY in actions:
            raise BadPolicy("The actions can not be Any.")
        sources = tuple(info.source_ips or ())
        for source in sources:
            if not source.strip():
                raise BadPolicy("The source ip is empty.")
            if not is_source(source):
                raise BadPolicy("The source ip is invalid.")
        decision = Ruling.__members__.get((info.decision or "").upper())
        if decision is None:
            raise BadPolicy("The decision is null or illegal.")
        return PolicyEntry(resource, actions, sources, decision)

    def info(self) -> EntryInfo:
        """Return the entry for a response."""
        actions = [action.name.capitalize() for action in self.actions]
        return EntryInfo(self.resource.key, actions, list(self.source_ips) or None, self.decision.name.capitalize())

    def matches(self, asked: Asked, source: str) -> bool:
        """Return whether the entry applies to this permission, requested from this address."""
        if not self.resource.covers(asked):
            return False
        if Action.ALL not in self.actions and not any(action in self.actions for action in asked.actions):
            return False
        return not self.source_ips or any(_within(source, known) for known in self.source_ips)

    @property
    def rank(self) -> tuple[bool, int, int, bool]:
        """Sort key. The matching entry with the smallest rank decides."""
        return (
            self.resource.kind is ResourceType.ANY,
            _SPECIFIC[self.resource.pattern],
            -len(self.resource.name),
            self.decision is Ruling.ALLOW,
        )


Policies = dict[PolicyType, tuple[PolicyEntry, ...]]
"""The entries of one user, by policy type."""


def policies_of(info: AclInfo) -> list[tuple[PolicyType, tuple[PolicyEntry, ...]]]:
    """Convert received policies. Raises `BadPolicy`."""
    if not info.policies:
        raise BadPolicy("The policies is empty.")
    found = []
    for policy in info.policies:
        if not policy.entries:
            raise BadPolicy("The policy entries is empty.")
        kind = PolicyType.__members__.get((policy.policy_type or "").upper(), PolicyType.CUSTOM)
        found.append((kind, tuple(PolicyEntry.of(entry) for entry in policy.entries)))
    return found


def merged(before: Policies, more: Iterable[tuple[PolicyType, tuple[PolicyEntry, ...]]]) -> Policies:
    """Return `before` with the entries in `more`. An entry replaces the existing entry for the same resource.

    If `before` has no policy of a type, the new policy is added unchanged.
    """
    found = dict(before)
    for kind, entries in more:
        if kind not in found:
            found[kind] = entries
            continue
        kept = list(found[kind])
        for entry in entries:
            at = next((index for index, old in enumerate(kept) if old.resource == entry.resource), -1)
            if at < 0:
                kept.append(entry)
            else:
                kept[at] = entry
        found[kind] = tuple(kept)
    return found


def is_source(text: str) -> bool:
    """Return whether the text is an IP address or a network in CIDR notation."""
    address, slash, bits = text.partition("/")
    if slash and not (bits.isascii() and bits.isdecimal()):
        return False
    try:
        if slash:
            ipaddress.ip_network(text, strict=False)
        else:
            ipaddress.ip_address(address)
    except ValueError:
        return False
    return "%" not in text


def _within(source: str, known: str) -> bool:
    """Compare addresses as texts and networks by their bits, as RocketMQ does."""
    if "/" not in known:
        return source == known
    try:
        return ipaddress.ip_address(source) in ipaddress.ip_network(known, strict=False)
    except ValueError:
        return False


class Acls:
    """The policies of all users of a broker, by the user's name."""

    def __init__(self) -> None:
        self._policies: dict[str, Policies] = {}

    def get(self, name: str) -> Policies | None:
        """Return the policies of a user, or None."""
        return self._policies.get(name)

    def put(self, name: str, policies: Policies) -> None:
        """Set the policies of a user, or remove them if they have no entries."""
        kept = {kind: entries for kind, entries in policies.items() if entries}
        if kept:
            self._policies[name] = kept
        else:
            self._policies.pop(name, None)

    def drop(self, name: str) -> bool:
        """Remove the policies of a user. Return whether there were any."""
        return self._policies.pop(name, None) is not None

    def info(self, name: str, part: str = "") -> AclInfo | None:
        """Return a user's policies for a response, or None if there are no entries.

        Only entries whose resource contains `part` are included.
        """
        found = []
        for kind, entries in self._policies.get(name, {}).items():
            told = [entry.info() for entry in entries if part in entry.resource.key]
            if told:
                found.append(PolicyInfo(kind.name.capitalize(), told))
        return AclInfo(USER_PREFIX + name, found) if found else None

    def listed(self, subject: str, part: str) -> list[AclInfo]:
        """Return `info` of all users whose `User:name` contains `subject`, sorted by name."""
        told = (self.info(name, part) for name in sorted(self._policies) if subject in USER_PREFIX + name)
        return [one for one in told if one is not None]

    def deciding(self, name: str, asked: Asked, source: str) -> Ruling | None:
        """Return the decision of a user's policies, or None if no entry applies."""
        policies = self._policies.get(name, {})
        for kind in (PolicyType.CUSTOM, PolicyType.DEFAULT):
            matching = [entry for entry in policies.get(kind, ()) if entry.matches(asked, source)]
            if matching:
                return min(matching, key=_rank).decision
        return None

    def encode(self) -> bytes:
        """Return the content of the file: policies by `User:name`, in the format of RocketMQ's RocksDB."""
        rows = {USER_PREFIX + name: _row(name, policies) for name, policies in self._policies.items()}
        return encode_body(rows)

    def load(self, data: bytes) -> None:
        """Load a file written by `encode`. Raises `ValueError`, `KeyError` or `TypeError` if it is invalid."""
        rows: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Any])
        self._policies = {key.removeprefix(USER_PREFIX): _policies(row["policies"]) for key, row in rows.items()}


def without(policies: Policies, kind: PolicyType, resource: Resource) -> Policies:
    """Return the policies without the entries of one type for one resource."""
    left = tuple(entry for entry in policies.get(kind, ()) if entry.resource != resource)
    return {**policies, kind: left}


def _rank(entry: PolicyEntry) -> tuple[bool, int, int, bool]:
    return entry.rank


def _row(name: str, policies: Policies) -> dict[str, Any]:
    return {
        "policies": [
            {"entries": [_entry_row(entry) for entry in entries], "policyType": kind.value}
            for kind, entries in policies.items()
        ],
        "subject": {"subjectType": 1, "username": name},
    }


def _entry_row(entry: PolicyEntry) -> dict[str, Any]:
    resource: dict[str, Any] = {"resourcePattern": entry.resource.pattern.value}
    resource["resourceType"] = entry.resource.kind.value
    if entry.resource.name:
        resource["resourceName"] = entry.resource.name
    row: dict[str, Any] = {
        "actions": [action.value for action in entry.actions],
        "decision": entry.decision.value,
        "resource": resource,
    }
    if entry.source_ips:
        row["environment"] = {"sourceIps": list(entry.source_ips)}
    return row


def _policies(rows: Sequence[dict[str, Any]]) -> Policies:
    return {PolicyType(row["policyType"]): tuple(_entry(one) for one in row["entries"]) for row in rows}


def _entry(row: dict[str, Any]) -> PolicyEntry:
    resource = row["resource"]
    return PolicyEntry(
        Resource(
            ResourceType(resource["resourceType"]),
            resource.get("resourceName", ""),
            Pattern(resource["resourcePattern"]),
        ),
        tuple(Action(action) for action in row["actions"]),
        tuple((row.get("environment") or {}).get("sourceIps") or ()),
        Ruling(row["decision"]),
    )


def limited(policies: Policies) -> bool:
    """Whether the number of entries is within the limit per user."""
    return sum(map(len, policies.values())) <= MOST_ENTRIES
