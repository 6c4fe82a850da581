"""Checks of users' arguments to the client's classes: numbers, callables, and names of topics and groups.

Each check raises `ArgumentError` with one sentence: the argument, the value, and the allowed values. The checks run
when the argument is given, so that an invalid argument causes neither a hang nor an error far from its line.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Final, TypeVar

from bolide.client.messages.errors import MessageRefused
from bolide.client.messages.queue import MessageQueue
from bolide.errors import ArgumentError
from bolide.layout.limits import MAX_LONG_TOPIC_LENGTH, MAX_TOPIC_LENGTH
from bolide.layout.names import DLQ_PREFIX, RETRY_PREFIX

T = TypeVar("T")

_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_ADDRESS: Final = re.compile(r".+:\d+(;.*)?")
SECRETS: Final = frozenset({"secret_key", "password"})
"""Arguments whose values are not shown in errors."""
LONGEST: Final = 1e12
"""Limit of seconds: as milliseconds they fit into the fields of requests."""
LARGEST: Final = 2**63 - 1
"""Limit of whole numbers, as in the fields of requests."""
_known_topics: set[str] = set()


def check_topic(topic: str) -> None:
    """Raise `MessageRefused` unless `topic` is a valid topic name."""
    try:
        if topic in _known_topics:
            return
    except TypeError:  # a list has no hash; the name check rejects it
        pass
    fault = _fault_of_name("topic", topic)
    if fault:
        raise MessageRefused(fault, "topic")
    if len(_known_topics) < 100_000:  # limits memory, not topics
        _known_topics.add(topic)


def check_group(group: str) -> str:
    """Return a valid group name. Raises `ArgumentError`."""
    fault = _fault_of_name("group", group)
    if fault:
        if isinstance(group, str) and _ADDRESS.fullmatch(group):
            fault = f"group {group!r} looks like an address: the group comes first, then the name servers"
        raise ArgumentError(fault, "group")
    return group


def _fault_of_name(kind: str, name: object) -> str:
    if not isinstance(name, str):
        return f"the {kind} is {shown(name)}, give a str"
    if not name:
        return f"the {kind} is empty, give it a name"
    if not _NAME.fullmatch(name):
        return f"{kind} {name!r} is invalid, only letters, digits and %|-_ are allowed"
    limit = MAX_LONG_TOPIC_LENGTH if name.startswith((RETRY_PREFIX, DLQ_PREFIX)) else MAX_TOPIC_LENGTH
    return f"{kind} {name[:40]}… has {len(name)} characters, {limit} are allowed" if len(name) > limit else ""


def plain_number(value: object) -> int | float | None:
    """Return a number, also one of numpy or pandas, as int or float. Returns None for other values, and for bool."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else None


def check_count(argument: str, value: int, least: int, most: int = LARGEST, *, off: int | None = None) -> int:
    """Return a whole number from `least` to `most`, or `off`, which turns the feature off. Raises `ArgumentError`."""
    number = plain_number(value)
    if isinstance(number, int) and (number == off or least <= number <= most):
        return number
    open_ended = most == LARGEST and not (isinstance(number, int) and number > most)
    reach = f"of at least {least}" if open_ended else f"from {least} to {most}"
    turned_off = "" if off is None else f", or {off} for no limit"
    raise ArgumentError(f"{argument} is {shown(value)}, give a whole number {reach}{turned_off}", argument)


def check_seconds(argument: str, value: float, *, zero: bool = False, most: float = LONGEST) -> float:
    """Return a number of seconds above 0 (with `zero`, from 0), at most `most`. Raises `ArgumentError`."""
    number = plain_number(value)
    if number is not None and (0 < number <= most or (zero and number == 0)):
        return number
    open_ended = most == LONGEST and not (number is not None and number > most)
    reach = f"{'from 0' if zero else 'above 0'}{'' if open_ended else f', {most:g} at most'}"
    raise ArgumentError(f"{argument} is {shown(value)}, give seconds {reach}", argument)


def check_text(argument: str, value: object) -> str:
    """Return the value, which must be a str. Raises `ArgumentError`, which does not contain the value of a secret."""
    if not isinstance(value, str):
        seen = f"a {type(value).__name__}" if argument in SECRETS else shown(value)
        raise ArgumentError(f"{argument} is {seen}, give a str", argument)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        half = value[error.start]
        raise ArgumentError(
            f"{argument} contains {half!r}, half of a surrogate pair, give Unicode text", argument
        ) from None
    return value


def check_callable(argument: str, value: object, given: str) -> None:
    """Raise `ArgumentError` unless `value` can be called with the arguments that `given` names, such as
    ``"message"``."""
    if not callable(value):
        raise ArgumentError(f"{argument} is {shown(value)}, give a function of ({given})", argument)
    if isinstance(value, type):
        raise ArgumentError(f"{argument} is the class {value.__name__}: give an object of it, or a function", argument)
    if inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        name = getattr(value, "__name__", repr(value))
        raise ArgumentError(
            f"{argument} {name} is a generator and would not run: give a function without yield", argument
        )
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return
    try:
        signature.bind(*given.split(", "))
    except TypeError:
        name = getattr(value, "__name__", repr(value))
        raise ArgumentError(
            f"{argument} {name}{signature} cannot be called with ({given}): give it exactly these parameters", argument
        ) from None


def check_method(argument: str, value: object, method: str, given: str) -> None:
    """Raise `ArgumentError` unless `value` has a method that can be called with the arguments that `given` names."""
    found = getattr(value, method, None)
    if found is None:
        kind = value.__name__ if isinstance(value, type) else type(value).__name__
        raise ArgumentError(f"{argument} {kind} has no method {method}({given})", argument)
    check_callable(f"{argument}.{method}", found, given)


def check_queues(argument: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return the queues as a list. Raises `ArgumentError`, also for a single queue."""
    given: object = queues
    if not isinstance(given, MessageQueue) and isinstance(given, Iterable):
        listed = list(queues)
        if all(isinstance(queue, MessageQueue) for queue in listed):
            return listed
    raise ArgumentError(f"{argument} is {shown(queues)}, give a list of MessageQueue objects", argument)


def check_several(argument: str, values: Iterable[T]) -> Iterable[T]:
    """Return the values, which the caller checks one by one. Raises `ArgumentError` for a single value or a dict."""
    given: object = values
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        raise ArgumentError(f"{argument} is {shown(values)}, give several in a list", argument)
    return values


def check_objects(argument: str, values: Iterable[T], kind: type[T]) -> tuple[T, ...]:
    """Return objects of one class as a tuple. Raises `ArgumentError`."""
    given: object = values
    if not isinstance(given, Iterable) or not all(isinstance(value, kind) for value in given):
        raise ArgumentError(f"{argument} is {shown(values)}, give a tuple of {kind.__name__} objects", argument)
    return tuple(values)


def shown(value: object) -> str:
    """Return a value for an error message, with its type unless the value shows it."""
    text = repr(value)
    text = text if len(text) <= 60 else f"{text[:60]}…"
    return text if value is None or isinstance(value, bool | int | float) else f"{text} ({type(value).__name__})"
