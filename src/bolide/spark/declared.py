"""How an option of `format("rocketmq")` is declared: once, as a field of a dataclass of options.

    @dataclass(frozen=True, kw_only=True)
    class Tasks:
        min_partitions: int = option(SPEED, "at least this many tasks", whole_number(1, 1_000_000), absent=0)

The option's name follows from the field's: `minPartitions`. What `read_fields` accepts, the error for another value,
the default and the entry in the reference follow from the same row. An option that is read together with others is a
row without a field.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Final, TypeVar, cast

from bolide.declaration import java_key
from bolide.spark.errors import OptionError

T = TypeVar("T")

REQUIRED: Final = "required"
NONE: Final = "none"
_DECLARED: Final = "option"
_ALIKE: Final = 0.7
"""From this likeness on, of at most 1, a name counts as misspelt."""


@dataclass(frozen=True)
class Option:
    """One declared option."""

    name: str
    heading: str
    """The section of the page that describes it."""
    text: str
    """What it does, as Markdown. Neighbours with the same text share a line of the page."""
    default: str = ""
    """The text that stands for the default, or what the page says of it."""
    read: Callable[[str, str], Any] | None = None
    """Converts name and text; raises OptionError. None if other options must be known for that."""


def option(
    heading: str,
    text: str,
    read: Callable[[str, str], Any],
    default: str = "",
    *,
    absent: Any = None,
    shown: str = NONE,
    name: str = "",
    hidden: bool = False,
) -> Any:
    """A field whose value is an option's: `read` of its text, or of the text `default`.

    Without a default an option that is not given has the value `absent`, of which the page says `shown`. A `hidden`
    value is left out of the dataclass's `repr`.
    """
    declared = Option(name, heading, text, default or shown, read)
    value = read(name, default) if default else absent
    return field(default=value, repr=not hidden, metadata={_DECLARED: declared})


def options_in(kind: type[Any]) -> tuple[Option, ...]:
    """The options that the fields of a dataclass declare, in their order."""
    return tuple(_declared(one) for one in fields(kind) if _DECLARED in one.metadata)


def _declared(one: Field[Any]) -> Option:
    declared = cast("Option", one.metadata[_DECLARED])
    return declared if declared.name else replace(declared, name=java_key(one.name))


def read_fields(kind: type[T], given: Mapping[str, str], **others: Any) -> T:
    """Make a dataclass of options from texts, by names in lower case; `others` are its other fields.

    Raises OptionError for a text that an option does not accept.
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
    """Raise OptionError for a name that is not among the known ones, which are by name in lower case.

    `what` describes the read or the write. `elsewhere` has names of Spark's Kafka source and of other operations, in
    lower case, and what to do with each.
    """
    for name in given:
        if name.lower() not in known:
            raise OptionError(f"option {name} is unknown to {what}{_advice(name.lower(), known, elsewhere)}")


def _advice(name: str, known: Mapping[str, str], elsewhere: Mapping[str, str]) -> str:
    """The rest of the sentence about an unknown option."""
    if name in elsewhere:
        return f": {elsewhere[name]}"
    if name.startswith("kafka."):
        return ": it is one of Kafka's clients, which are not used; remove it"
    from difflib import get_close_matches  # only for an error

    alike = get_close_matches(name, known, 1, _ALIKE)
    if alike:
        return f": did you mean {known[alike[0]]}?"
    return f"; known are {', '.join(sorted(known.values()))}"
