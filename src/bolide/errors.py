"""The roots of every error: what the peer did, what Bolide or the machine did, and what the caller wrote.

Retry is data, not code: a caller looks at the class attributes. ``code`` is the remoting response code with which
a server answers the error and by which a client finds the class again; no two classes may claim one code.
All errors pickle, since Spark executors send them to the driver.
"""

from __future__ import annotations

from typing import Any, ClassVar


class BolideError(Exception):
    """Root of all errors of Bolide. The text is one sentence: what, where, what to do."""

    code: ClassVar[int | None] = None
    """Remoting response code, or None when the error never crosses the wire."""
    retriable: ClassVar[bool] = False
    """True when the same call may succeed a little later or at another broker."""
    refresh_route: ClassVar[bool] = False
    """True when the caller's idea of topics and brokers is out of date."""
    closes_connection: ClassVar[bool] = False
    """True when the connection on which it happened can no longer be used."""

    by_code: ClassVar[dict[int, type[BolideError]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        code = cls.__dict__.get("code")
        if code is None:
            return
        other = BolideError.by_code.setdefault(code, cls)
        if other is not cls and other.__qualname__ != cls.__qualname__:
            raise TypeError(f"response code {code} belongs to {other.__name__} already; {cls.__name__} cannot take it")

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class PeerError(BolideError):
    """The peer, or who uses the command line, asked for something that cannot be done."""


class LocalError(BolideError):
    """Bolide, or the machine it runs on, failed."""


class ArgumentError(BolideError, ValueError):
    """The caller gave an argument that cannot be used. `argument` is its name; the text says what is allowed."""

    def __init__(self, message: str, argument: str = "") -> None:
        super().__init__(message)
        self.argument = argument


class ProtocolError(PeerError):
    """Bytes that are not a frame, or a frame that exceeds a limit: the connection is closed."""

    closes_connection = True


class ConfigError(PeerError):
    """A setting is wrong: names the key, the value and what is allowed."""


class ConnectionLost(LocalError):
    """The connection closed before the answer came."""

    retriable = True
    refresh_route = True
    closes_connection = True


class RequestTimeout(LocalError, TimeoutError):
    """No response within the time allowed; whether the request took effect is unknown. Also a `TimeoutError`."""

    retriable = True


def reason(error: BaseException) -> str:
    """What an exception says, never an empty text."""
    return str(error) or type(error).__name__


def error_class(code: int) -> type[BolideError]:
    """The class registered for a response code, or `PeerError` when none is."""
    return BolideError.by_code.get(code, PeerError)
