"""Base classes of all errors: caused by the peer, by Bolide or the machine, or by the caller.

Retry is data, not code: a caller reads the class attributes. ``code`` is the remoting response code that a server
returns for the error, and by which a client finds the class; two classes cannot have the same code. All errors can be
pickled, because Spark executors send them to the driver.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

E = TypeVar("E", bound=BaseException)


class BolideError(Exception):
    """Base of all errors of Bolide. The text is one sentence: what, where, what to do."""

    code: ClassVar[int | None] = None
    """Remoting response code, or None if the error is never sent to a peer."""
    retriable: ClassVar[bool] = False
    """Whether the same call may succeed a little later or at another broker."""
    refresh_route: ClassVar[bool] = False
    """Whether the caller's routes of topics and brokers are out of date."""
    closes_connection: ClassVar[bool] = False
    """Whether the connection of the request can no longer be used."""

    by_code: ClassVar[dict[int, type[BolideError]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        code = cls.__dict__.get("code")
        if code is None:
            return
        other = BolideError.by_code.setdefault(code, cls)
        if other is not cls and other.__qualname__ != cls.__qualname__:
            raise TypeError(f"response code {code} belongs to {other.__name__} already; {cls.__name__} cannot have it")

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class PeerError(BolideError):
    """The peer, or the user of the command line, requested something impossible."""


class LocalError(BolideError):
    """Bolide, or the machine it runs on, failed."""


class ArgumentError(BolideError, ValueError):
    """The caller gave an invalid argument. `argument` is its name; the text describes the allowed values."""

    def __init__(self, message: str, argument: str = "") -> None:
        super().__init__(message)
        self.argument = argument


class ProtocolError(PeerError):
    """Bytes that are not a frame, or a frame that exceeds a limit: the connection is closed."""

    closes_connection = True


class ConfigError(PeerError):
    """A setting is invalid. The text has the key, the value and the allowed values."""


class ConnectionLost(LocalError):
    """The connection closed before the response arrived."""

    retriable = True
    refresh_route = True
    closes_connection = True


class RequestTimeout(LocalError, TimeoutError):
    """No response arrived in time. The request may or may not have taken effect. Also a `TimeoutError`."""

    retriable = True


def caused(error: E, cause: BaseException | None) -> E:
    """Return an error with this cause; None hides earlier errors. For ``raise caused(error, cause) from cause``: mypyc
    ignores ``from``, which Python and linters need."""
    error.__cause__ = cause
    return error


def reason(error: BaseException) -> str:
    """Return an exception's text, or its class name if the text is empty."""
    return str(error) or type(error).__name__


def error_class(code: int) -> type[BolideError]:
    """Return the class registered for a response code, or `PeerError`."""
    return BolideError.by_code.get(code, PeerError)
