"""Filters that run in the consumer and drop pulled messages before delivery (RocketMQ's FilterMessageHook)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence

from bolide.client.messages.arguments import check_callable, shown
from bolide.client.messages.codec import Codec
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.user_code import raise_interruption
from bolide.errors import ArgumentError

log = logging.getLogger("bolide.client")

FilterMessageHook = Callable[[ReceivedMessage], bool]
"""Returns whether to deliver a pulled message. Called on the event loop; must not block."""


def check_filters(filters: tuple[FilterMessageHook, ...]) -> tuple[FilterMessageHook, ...]:
    """Return a user's filters. Raises `ArgumentError` unless each can be called with a message."""
    given: object = filters
    if not isinstance(given, Iterable):
        raise ArgumentError(f"filters is {shown(given)}, give a tuple of functions of (message)", "filters")
    filters = tuple(filters)
    for wants in filters:
        check_callable("filters", wants, "message")
        if inspect.iscoroutinefunction(wants):  # its coroutine would be true
            raise ArgumentError(f"filters has {shown(wants)}, which is async: give a plain function", "filters")
    return filters


def wanted_messages(
    messages: list[ReceivedMessage],
    filters: Sequence[FilterMessageHook],
    codec_of: Callable[[ReceivedMessage], Codec | None],
) -> tuple[list[ReceivedMessage], list[ReceivedMessage]]:
    """Return the messages that pass every filter, and the dropped messages. A filter that raises lets its message pass.

    Before the filters run, sets the codec of each message, so that they can decode its body.
    """
    if not filters:
        return messages, []
    kept: list[ReceivedMessage] = []
    dropped: list[ReceivedMessage] = []
    for message in messages:
        message.codec = codec_of(message)
        wanted = all(_wants(wants, message) for wants in filters)
        (kept if wanted else dropped).append(message)
    return kept, dropped


def _wants(wants: FilterMessageHook, message: ReceivedMessage) -> bool:
    try:
        wanted: object = wants(message)
        if isinstance(wanted, bool):  # the usual case; the next check takes longer than the filter
            return wanted
        if inspect.isawaitable(wanted):
            if inspect.iscoroutine(wanted):
                wanted.close()
            raise TypeError("it is async: give a plain function")
        return bool(wanted)
    except BaseException as error:
        raise_interruption(error)
        log.error("the filter %r failed on %r, which is delivered", wants, message, exc_info=error)
        return True
