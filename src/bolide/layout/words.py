"""Separators of the texts in properties and subscriptions, with RocketMQ's rules for whitespace.

RocketMQ separates keys with the ASCII space only (MessageConst's KEY_SEPARATOR). It trims tags with Java's
`String.trim`, which removes characters up to U+0020. Python's `split()` and `strip()` also treat tabs, no-break spaces
and U+3000 as whitespace, and would change keys and tags that contain such characters.
"""

from __future__ import annotations

from typing import Final

KEY_SEPARATOR: Final = " "
TAG_SEPARATOR: Final = "||"
ALL_TAGS: Final = "*"
"""Expression that selects all messages, also without a tag."""
_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))


def split_keys(text: str) -> list[str]:
    """Return the keys of a KEYS property, in their order."""
    return [key for key in text.split(KEY_SEPARATOR) if key]


def java_trim(text: str) -> str:
    """Trim like Java's `String.trim`: remove characters up to U+0020 at both ends."""
    return text.strip(_JAVA_BLANKS)


def split_tags(text: str) -> list[str]:
    """Return the tags of an expression such as ``TagA || TagB``, in their order."""
    return [tag for tag in map(java_trim, text.split(TAG_SEPARATOR)) if tag]


def tag_fault(tag: str) -> str:
    """Return why the expression `tag` does not select the messages with this tag, and what to do, or "" if it does.

    RocketMQ's producers and brokers accept all tags, so stored messages may have such a tag.
    """
    if TAG_SEPARATOR in tag:
        return f"contains {TAG_SEPARATOR}, which separates the tags of a subscription: a message has one tag"
    if java_trim(tag) != tag:
        return "begins or ends with a blank or control character, which a subscription removes: remove it"
    if tag == ALL_TAGS:
        return "is the subscription to all messages: use another tag"
    return ""
