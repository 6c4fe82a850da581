"""Declares each option of `format("rocketmq")` once, as a field of a dataclass of options.

    @dataclass(frozen=True, kw_only=True)
    class Tasks:
        min_partitions: int = option(SPEED, "at least this many tasks", whole_number(1, 1_000_000), absent=0)

The option's name is derived from the field's: `minPartitions`. The same row determines the values that `read_fields`
accepts, the error for other values, the default and the entry in the reference. An option that is parsed together with
others is a row without a field.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Final, TypeVar, cast

from bolide.declaration import java_key
from bolide.spark.errors import OptionError

T = TypeVar("T")

REQUIRED: Final = "required"
NO_LIMIT: Final = "no limit"
_DECLARED: Final = "option"
_ALIKE: Final = 0.7
"""Similarity to a known name, at most 1, from which a name is treated as misspelt."""


@dataclass(frozen=True)
class Option:
    """One declared option."""

    name: str
    heading: str
    """The section of the page that describes it."""
    text: str
    """Description as Markdown. Neighbours with equal texts share a line of the page."""
    default: str = ""
    """Text of the default value, or its description on the page."""
    read: Callable[[str, str], Any] | None = None
    """Converts name and text, or raises `OptionError`. None if the conversion depends on other options."""
    is_value: bool = False
    """Whether `default` is a value, not a description."""


def option(
    heading: str,
    text: str,
    read: Callable[[str, str], Any],
    default: str = "",
    *,
    absent: Any = None,
    shown: str = NO_LIMIT,
    name: str = "",
    hidden: bool = False,
) -> Any:
    """Declare a field for the value of an option: the result of `read` for its text, or for the text `default`.

    Without a default, an option that is not given has the value `absent`, which the page shows as `shown`. The
    dataclass's `repr` omits a `hidden` value.
    """
    declared = Option(name, heading, text, default or shown, read, is_value=bool(default))
    value = read(name, default) if default else absent
    return field(default=value, repr=not hidden, metadata={_DECLARED: declared})


def options_in(kind: type[Any]) -> tuple[Option, ...]:
    """Return the options that the fields of a dataclass declare, in their order."""
    return tuple(_declared(one) for one in fields(kind) if _DECLARED in one.metadata)


def _declared(one: Field[Any]) -> Option:
    declared = cast("Option", one.metadata[_DECLARED])
    return declared if declared.name else replace(declared, name=java_key(one.name))


def read_fields(kind: type[T], given: Mapping[str, str], **others: Any) -> T:
    """Create a dataclass of options from texts by names in lower case. `others` are its other fields.

    Raises `OptionError` if an option does not accept its text.
    """
    values = dict(others)
    for one in fields(cast("Any", kind)):
        if one.name not in others and _DECLARED in one.metadata:
            declared = _declared(one)
            text = given.get(declared.name.lower())
            if text is not None and declared.read is not None:
                values[one.name] = declared.read(declared.name, text)
    return kind(**values)


def check_names(given: Collection[str], known: Mapping[str, str], what: str, elsewhere: Mapping[str, str]) -> None:
    """Raise `OptionError` for a name that is not in `known`, whose keys are names in lower case.

    `what` describes the read or the write. `elsewhere` contains names of Spark's Kafka source and of other operations,
    in lower case, and what to do with each.
    """
    for name in given:
        if name.lower() not in known:
            raise OptionError(f"option {name} is unknown to {what}{_advice(name.lower(), known, elsewhere)}")


def _advice(name: str, known: Mapping[str, str], elsewhere: Mapping[str, str]) -> str:
    """Return the rest of the sentence about an unknown option."""
    if name in elsewhere:
        return f": {elsewhere[name]}"
    if name.startswith("kafka."):
        return ": it is one of Kafka's clients, which are not used; remove it"
    from difflib import get_close_matches  # only for an error

    alike = get_close_matches(name, known, 1, _ALIKE)
    if alike:
        return f": did you mean {known[alike[0]]}?"
    return f": use one of {', '.join(sorted(known.values()))}"
