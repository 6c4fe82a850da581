"""Checks the arguments of public functions by their annotations, before the function runs.

A plain annotation specifies the type: ``bool``, ``str | None``, ``Sequence[str]``. An annotation with an `Allowed` also
specifies the range, the unit and the text of the documentation. So each option is declared once, next to its default:

    timeout: Annotated[float, SECONDS("Limit for one message, with all its tries.")] = 3.0

The decorator `documented` adds these texts to a class as the section "Arguments" of its docstring.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial, update_wrapper
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from msgspec import Struct

from bolide.client.messages.arguments import check_count, check_seconds, check_text, plain_number, shown
from bolide.errors import ArgumentError

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

Check = Callable[[str, Any], Any]
"""``check(name, value)`` returns the value to use. Raises `ArgumentError`."""


class UnexpectedArgument(ArgumentError, TypeError):
    """The function has no argument with this name. `argument` is the name."""


class ArgumentOption(Struct, frozen=True):
    """The description of an argument in its annotation."""

    text: str
    allowed: str
    check: Check | None


class Allowed(Struct, frozen=True):
    """The allowed values of an option, in words and as a check. Call it with the description of the option."""

    allowed: str
    check: Check | None = None

    def __call__(self, text: str, unit: str = "") -> ArgumentOption:
        """Describe an option; `unit` precedes the allowed values: ``"bytes"``."""
        return ArgumentOption(text, ", ".join(filter(None, (unit, self.allowed))), self.check)


MAX_INTERVAL: Final = 600.0
"""Upper limit of the intervals in seconds. RocketMQ's clients take ms, and 30000 would otherwise mean 8 hours."""


class Moved(Struct, frozen=True):
    """An option of 0.1 that is a field of another option now."""

    option: str
    field: str
    count: int = 0
    """Number to add to the value of the old option."""


MOVED: Final = {
    "retries": Moved("retry", "attempts", count=1),
    "retry_when_not_safe": Moved("retry", "when_not_safe"),
    "latency_faults": Moved("retry", "latency_faults"),
    **{
        name: Moved("flow", name)
        for name in (
            "max_cached",
            "max_cached_bytes",
            "max_span",
            "max_cached_for_topic",
            "max_cached_bytes_for_topic",
            "pull_batch",
            "pull_interval",
        )
    },
}
"""Old keywords, which still work but issue a warning."""

ONCE_PER_MESSAGE: Final = frozenset({"send", "submit", "send_many", "send_batch", "send_oneway", "poll"})
"""Methods that check their arguments themselves, because the general check costs a few microseconds per call."""

ANY: Final = Allowed("")
NAME: Final = Allowed("letters, digits and `%\\|-_`, 127 at most")
SECONDS: Final = Allowed("seconds, above 0", check_seconds)
SECONDS_OR_ZERO: Final = Allowed("seconds, from 0", partial(check_seconds, zero=True))
INTERVAL: Final = Allowed("seconds, above 0, 600 at most", partial(check_seconds, most=MAX_INTERVAL))
FROM_ZERO: Final = Allowed("from 0", partial(check_count, least=0))
FROM_ONE: Final = Allowed("from 1", partial(check_count, least=1))
PERMISSION: Final = Allowed("6: read and write, 4: read, 2: write", partial(check_count, least=0, most=7))
FROM_ONE_OR_OFF: Final = Allowed("from 1; -1: off", partial(check_count, least=1, off=-1))


def one_of(*names: str) -> Check:
    """Return the check of an option that is one of these names, in upper or lower case."""
    found = {each.upper(): each for each in names}

    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value.upper() not in found:
            raise ArgumentError(f"{name} is {shown(value)}, give one of {', '.join(names)}", name)
        return found[value.upper()]

    return check


def several(check: Check) -> Check:
    """Return the check of an option with several values in a list, each of which has this check."""
    return partial(_several, check, list, "several in a list")


def checked(function: F) -> F:
    """Check each argument of a function or method by its annotation when it is called."""
    plan: list[_Plan] = []  # made by the first call: evaluating annotations takes longer than most calls

    def planned(arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if not plan:
            plan.append(_Plan(function))
        return plan[0].checked(arguments, named)

    async def awaited(*arguments: Any, **named: Any) -> Any:
        arguments, named = planned(arguments, named)  # type: ignore[assignment]  # a list serves as well
        return await function(*arguments, **named)

    def called(*arguments: Any, **named: Any) -> Any:
        arguments, named = planned(arguments, named)  # type: ignore[assignment]  # the same
        return function(*arguments, **named)

    return cast("F", update_wrapper(awaited if inspect.iscoroutinefunction(function) else called, function))


def checked_methods(kind: C) -> C:
    """Check the arguments of all public methods of a class except `ONCE_PER_MESSAGE`."""
    for name, method in list(vars(kind).items()):
        if inspect.isfunction(method) and not name.startswith("_") and name not in ONCE_PER_MESSAGE:
            setattr(kind, name, checked(method))
    return kind


def checked_constructor(kind: C) -> C:
    """Check the arguments of a class when it is instantiated."""
    kind.__init__ = checked(kind.__init__)  # type: ignore[misc]  # of this class, not of an object
    return kind


def documented(kind: C) -> C:
    """Check the arguments of a class, and describe them in its docstring."""
    made: Any = kind.__init__  # type: ignore[misc]  # of this class, not of an object
    constructor: Any = checked(made)
    constructor.__signature__ = _PlainSignature.of(made)
    kind.__init__ = constructor  # type: ignore[misc]  # the same
    if kind.__doc__ is not None:  # python -OO
        kind.__doc__ = cast("str", _WithArguments(kind.__doc__, made))
    return kind


def documented_fields(kind: C) -> C:
    """Describe the fields of a dataclass, or the keys of a `TypedDict`, in its docstring."""
    if kind.__doc__ is not None:  # python -OO
        kind.__doc__ = cast("str", _WithArguments(kind.__doc__, kind))
    return kind


class _WithArguments:
    """A docstring with the section "Arguments". It is assembled when it is read, because this would add a millisecond
    to the import. `help` reads it only from a class whose metaclass is `type`, so no documented class derives from
    `ABC`."""

    def __init__(self, doc: str, declares: Any) -> None:
        self._doc = doc
        self._declares = declares

    def __get__(self, instance: object, owner: type) -> str:
        return _with_arguments(self._doc, get_type_hints(self._declares, include_extras=True))


class _PlainSignature(inspect.Signature):
    """The signature of a function without the texts of its annotations, assembled when it is read."""

    _made: Callable[..., Any]

    @classmethod
    def of(cls, made: Callable[..., Any]) -> _PlainSignature:
        """Return the signature of a function, with the slots of the base class empty."""
        signature = cls.__new__(cls)
        signature._made = made
        return signature

    def __getattr__(self, name: str) -> Any:
        # Called when an empty slot is read.
        hints = get_type_hints(self._made, include_extras=True)
        shown_types = inspect.signature(self._made)
        parameters = [
            each.replace(annotation=_plain(hints[each.name])) if _option(hints.get(each.name)) else each
            for each in shown_types.parameters.values()
        ]
        self.__init__(parameters, return_annotation=shown_types.return_annotation)  # type: ignore[misc]  # fill them
        return object.__getattribute__(self, name)


def _with_arguments(doc: str, hints: Mapping[str, Any]) -> str:
    import textwrap  # only to show a docstring

    lines = ["Arguments:"]
    for name, hint in hints.items():
        option = _option(hint)
        if get_origin(hint) is Unpack:
            option = ArgumentOption(f"Keywords of `{get_args(hint)[0].__name__}`.", "", None)
        if option is not None and option.text:
            allowed = f" ({option.allowed.replace('`', '')})" if option.allowed else ""
            lines += textwrap.wrap(
                f"{name}{allowed}: {option.text}", 112, initial_indent=" " * 4, subsequent_indent=" " * 8
            )
    return inspect.cleandoc(doc) + "\n\n" + "\n".join(lines) + "\n"


class _Plan:
    """The checks of one function, computed once."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        parameters = inspect.signature(function).parameters.values()
        hints = get_type_hints(function, include_extras=True)
        spread = next((each.name for each in parameters if each.kind is each.VAR_KEYWORD), "")
        self._positional = [
            each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
        self._open = False
        """Whether any keyword is accepted."""
        known = {each.name: hints.get(each.name) for each in parameters if each.name not in (spread, "self")}
        if spread:
            (keys,) = get_args(hints[spread]) if get_origin(hints[spread]) is Unpack else (hints[spread],)
            self._open = not is_typeddict(keys)
            known |= {} if self._open else get_type_hints(keys, include_extras=True)
        self._hints = known
        self._defaults = {each.name: each.default for each in parameters}
        self._known = list(known)
        self._checks = {name: check for name, hint in known.items() if (check := check_of(hint)) is not None}

    def checked(self, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments to use. Raises `ArgumentError`."""
        checks = self._checks
        arguments = list(given)
        if not named.keys().isdisjoint(MOVED):
            named = self._gathered(named)
        for place, (name, value) in enumerate(zip(self._positional, given, strict=False)):
            if name in checks:
                arguments[place] = checks[name](name, value)
        for name, value in named.items():
            if name in checks:
                named[name] = checks[name](name, value)
            elif not self._open and name not in self._known:
                raise self._unexpected(name, given)
        return arguments, named

    def _gathered(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return the keywords with old keywords merged into the options that replace them. Warns about each old
        keyword."""
        rest, gathered = dict(named), dict[str, dict[str, Any]]()
        for name in named.keys() & MOVED.keys() - self._hints.keys():
            moved = MOVED[name]
            if moved.option not in self._hints:
                continue
            if named.get(moved.option, default := self._defaults.get(moved.option)) != default:
                raise ArgumentError(f"{name} and {moved.option} are both given; give {moved.option} alone", name)
            value = rest.pop(name)
            gathered.setdefault(moved.option, {})[moved.field] = value + moved.count if type(value) is int else value
            kind = _plain(self._hints[moved.option]).__name__
            new = f"{moved.option}={kind}({moved.field}=...)"
            more = ", which counts the first try as well" if moved.count else ""
            warnings.warn(f"{name} is deprecated; give {new}{more}", DeprecationWarning, stacklevel=5)
        for option, fields in gathered.items():
            rest[option] = _plain(self._hints[option])(**fields)
        return rest

    def _unexpected(self, name: str, given: tuple[Any, ...]) -> UnexpectedArgument:
        method = self._function.__name__
        called = type(given[0]).__name__ if self._positional[:1] == ["self"] and given else ""
        called = ".".join(filter(None, (called, "" if method == "__init__" else method)))
        from difflib import get_close_matches  # only for an error

        near = get_close_matches(name, self._known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"help({called}) lists them"
        return UnexpectedArgument(f"{called}() got an unexpected option {name!r}; {hint}", name)


def _option(hint: Any) -> ArgumentOption | None:
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    found = next((extra for extra in extras if isinstance(extra, ArgumentOption | Allowed)), None)
    return found("") if isinstance(found, Allowed) else found


def _plain(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def check_of(hint: Any) -> Check | None:
    """Return the check of an annotation, or None if it allows any value, or several types."""
    option = _option(hint)
    bare = _plain(hint)
    if get_origin(bare) in (Union, UnionType) and NoneType in get_args(bare):
        (inner, *others) = (each for each in get_args(bare) if each is not NoneType)
        check = (option.check if option else None) or (None if others else check_of(inner))
        return None if check is None else partial(_optional, check)
    return (option.check if option else None) or _check_of_type(bare)


def _check_of_type(kind: Any) -> Check | None:
    origin, parts = get_origin(kind), get_args(kind)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if origin is Literal:
        return partial(_one_of, parts)
    if origin in _SEVERAL:
        name = getattr(parts[0], "__name__", "")
        words = f"a list of {name} objects" if name else "several in a list"
        return partial(_several, check_of(parts[0]), tuple if origin is tuple else list, words)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return partial(_mapping, check_of(parts[0]), check_of(parts[1]))
    if kind is Any or not isinstance(kind, type) or is_typeddict(kind):
        return None
    if getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False):
        return None
    return partial(_object, kind)


_SEVERAL: Final = (tuple, list, Iterable, Collection, Sequence)


def _optional(check: Check, name: str, value: Any) -> Any:
    return None if value is None else check(name, value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} is {shown(value)}, give True or False", name)
    return value


def _whole(name: str, value: Any) -> int:
    number = plain_number(value)
    if not isinstance(number, int):
        raise ArgumentError(f"{name} is {shown(value)}, give a whole number", name)
    return number


def _number(name: str, value: Any) -> float:
    number = plain_number(value)
    if number is None:
        raise ArgumentError(f"{name} is {shown(value)}, give a number", name)
    return number


def _bytes(name: str, value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ArgumentError(f"{name} is {shown(value)}, give bytes", name)
    return value


_SIMPLE: Final[dict[Any, Check]] = {bool: _flag, int: _whole, float: _number, str: check_text, bytes: _bytes}


def _one_of(allowed: tuple[Any, ...], name: str, value: Any) -> Any:
    if value not in allowed:
        words = ", ".join(map(repr, allowed))
        raise ArgumentError(f"{name} is {shown(value)}, give one of {words}", name)
    return value


def _several(check: Check | None, made: Callable[[Iterable[Any]], Any], words: str, name: str, value: Any) -> Any:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable) or hasattr(value, "_fields"):
        raise ArgumentError(f"{name} is {shown(value)}, give {words}", name)
    return made(value if check is None else (check(name, each) for each in value))


def _mapping(check_key: Check | None, check_value: Check | None, name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ArgumentError(f"{name} is {shown(value)}, give a dict", name)
    for key, each in value.items():
        if check_key is not None:
            check_key(f"a key of {name}", key)
        if check_value is not None:
            check_value(f"{name}[{key!r}]", each)
    return value


def _object(kind: type, name: str, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ArgumentError(f"{name} is {shown(value)}, give an object of the class {kind.__name__}", name)
    return value
