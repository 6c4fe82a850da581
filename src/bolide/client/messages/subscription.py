"""Subscriptions: all messages of a topic, some tags (``TagA || TagB``), or an SQL92 expression over properties."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bolide.client.messages.arguments import check_text
from bolide.client.messages.checked import checked_constructor
from bolide.errors import ArgumentError
from bolide.layout.hashes import java_hash
from bolide.layout.words import ALL_TAGS, java_trim, split_tags


@checked_constructor
@dataclass(frozen=True, slots=True)
class Selector:
    """An expression that the broker evaluates: SQL92, such as ``a > 5 AND region IN ('eu', 'us')``, or a type that a
    plug-in adds to the broker."""

    expression: str
    expression_type: str = "SQL92"


def sql(expression: str) -> Selector:
    """Select by an SQL92 expression instead of tags; the broker needs enablePropertyFilter=true."""
    return Selector(expression)


def selector(expression_type: str, expression: str) -> Selector:
    """Select by an expression of a type that a plug-in of the broker adds.
    The broker needs enablePropertyFilter=true."""
    return Selector(expression, expression_type)


@dataclass(slots=True)
class Subscription:
    """One topic of a consumer, as in the heartbeat (SubscriptionData). Pulls carry `version`, in ms since 1970;
    heartbeats carry `told_at` if it is later, which is the case while brokers are being sent a newer subscription."""

    topic: str
    expression: str
    kind: str
    version: int
    tags: frozenset[str] = field(default_factory=frozenset)
    told_at: int = 0

    @property
    def exact_tags(self) -> frozenset[str] | None:
        """The tags to compare exactly on the client, or None to accept every message."""
        return self.tags if self.kind == "TAG" and self.tags else None

    def data(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "classFilterMode": False,
            "codeSet": [java_hash(tag) for tag in sorted(self.tags)],
            "expressionType": self.kind,
            "subString": self.expression,
            "subVersion": max(self.version, self.told_at),
            "tagsSet": sorted(self.tags),
            "topic": self.topic,
        }


def subscription(topic: str, expression: str | Selector, now: int) -> Subscription:
    """Return the subscription for a user's expression; blank means all. Raises `ArgumentError` if the expression
    contains no tag."""
    if isinstance(expression, Selector):
        return Subscription(topic, expression.expression, expression.expression_type, now)
    text = java_trim(check_text("expression", expression))
    if text in ("", ALL_TAGS):
        return Subscription(topic, ALL_TAGS, "TAG", now)
    tags = frozenset(split_tags(text))
    if not tags:
        raise ArgumentError(f"{expression!r} for topic {topic} has no tag: write TagA || TagB or *", "expression")
    return Subscription(topic, text, "TAG", now, tags)
