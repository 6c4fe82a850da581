"""Registries with Confluent's API, such as Confluent's registry, Karapace and Apicurio's compatible API.

A body starts with a zero byte and the schema's id (four bytes, big endian). In Protobuf bodies, the position of the
message follows: a count and as many positions, as zigzag varints, where a single 0 means the first message
(Confluent's documentation, "Wire format").
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any, Final

from bolide.bodies.registry import (
    AVRO,
    JSON,
    PROTOBUF,
    FramedBody,
    RegisteredSchema,
    RegistryAddress,
    RegistryError,
    UnfitBody,
)

MAGIC: Final = 0
HEAD: Final = 5
"""Bytes before the payload: the magic byte and the id."""
TIMEOUT_S: Final = 10.0
TRIES: Final = 3
PAUSE_S: Final = 0.5
"""Seconds before the second try. The pause before the third is twice as long."""
UNKNOWN_S: Final = 60.0
"""Seconds for which an unknown id is not requested again."""
MOST_ANSWER: Final = 8 << 20
"""Maximum size of a response in bytes."""
MOST_REFERENCES: Final = 100
SHOWN: Final = 100
"""Maximum number of characters that an error quotes from a registry."""
MOST_POSITIONS: Final = 32
_NOT_FOUND: Final = (40401, 40402, 40403)
"""Error codes of an unknown subject, version and schema; any other 404 comes from another kind of server."""
_KINDS: Final = {"AVRO": AVRO, "JSON": JSON, "PROTOBUF": PROTOBUF}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects, which would send the user's password to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _split(where: RegistryAddress) -> urllib.parse.SplitResult:
    """Return the parts of the address. Raises `RegistryError` if it is not the address of a server."""
    try:
        where.address.encode("ascii")
        parts = urllib.parse.urlsplit(where.address)
        if parts.hostname and parts.port != 0 and not (parts.query or parts.fragment):
            return parts
    except ValueError:
        pass
    raise RegistryError(f"the registry's address {where.shown!r} is not http://HOST:PORT")


class ConfluentRegistry:
    """Fetches schemas from a registry and caches them, because the schema of an id never changes. Thread-safe."""

    def __init__(self, where: RegistryAddress, sleep: Callable[[float], None] = time.sleep) -> None:
        """Calls `sleep` with seconds between two tries. Raises `RegistryError` if the address or a file is invalid."""
        parts = _split(where)
        user = where.user or urllib.parse.unquote(parts.username or "")
        password = where.password or urllib.parse.unquote(parts.password or "")
        self._address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if user:
            self._headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        handlers: list[Any] = [_NoRedirects()]
        if parts.scheme == "https":
            try:
                context = ssl.create_default_context(cafile=where.cert_path or None)
            except OSError as error:
                raise RegistryError(f"the registry's certificates {where.cert_path} cannot be read: {error}") from None
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._open = urllib.request.build_opener(*handlers).open
        self._sleep = sleep
        self._schemas: dict[int, RegisteredSchema] = {}
        self._unknown: dict[int, float] = {}
        self._lock = threading.Lock()

    def read(self, body: bytes) -> FramedBody:
        """Split a body into schema and payload. Raises `UnfitBody` if it has no schema id or the id is unknown, and
        `RegistryError` if the registry fails."""
        if len(body) < HEAD or body[0] != MAGIC:
            raise UnfitBody("it does not start with a zero byte and the id of a schema")
        schema = self._by_id(int.from_bytes(body[1:HEAD], "big"))
        if schema.kind != PROTOBUF:
            return FramedBody(schema, body[HEAD:])
        message, at = _positions(body, HEAD)
        return FramedBody(schema, body[at:], message)

    def frame(self, body: FramedBody) -> bytes:
        """Return a body with the id of its schema."""
        head = bytes([MAGIC]) + int(body.schema.id).to_bytes(4, "big")
        if body.schema.kind != PROTOBUF:
            return head + body.payload
        if body.message == (0,):
            return head + b"\0" + body.payload
        return head + b"".join(map(_zigzag, (len(body.message), *body.message))) + body.payload

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the newest schema of a subject. Raises `RegistryError` if it does not exist or the registry fails."""
        answer = self._ask(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest")
        if answer is None:
            raise RegistryError(f"the registry {self._address} has no subject {subject}")
        number = answer.get("id")
        if type(number) is not int or not 0 <= number < 1 << 32:
            raise RegistryError(f"the registry {self._address} returned no id for the subject {subject}")
        return self._by_id(number)

    def _by_id(self, number: int) -> RegisteredSchema:
        found = self._schemas.get(number)
        if found is not None:
            return found
        with self._lock:  # one thread fetches it for all
            if number not in self._schemas:
                self._schemas[number] = self._fetched(number)
            return self._schemas[number]

    def _fetched(self, number: int) -> RegisteredSchema:
        if self._unknown.get(number, 0.0) > time.monotonic():
            raise UnfitBody(f"the registry has no schema {number}")
        answer = self._ask(f"/schemas/ids/{number}")
        if answer is None:
            if len(self._unknown) > 10_000:  # ids that senders made up
                self._unknown.clear()
            self._unknown[number] = time.monotonic() + UNKNOWN_S
            raise UnfitBody(f"the registry has no schema {number}")
        kind = self._kind(answer)
        if kind == PROTOBUF:
            answer = self._ask(f"/schemas/ids/{number}?format=serialized") or {}
        references: dict[str, str] = {}
        self._follow(answer, kind, references, set())
        return RegisteredSchema(number, kind, self._text(answer), tuple(references.items()))

    def _follow(self, answer: dict[str, Any], kind: str, found: dict[str, str], seen: set[str]) -> None:
        """Add the schemas that a response refers to, innermost first.

        `seen` contains the names that were requested, so that schemas that refer to each other do not cause an endless
        loop.
        """
        for name, subject, version in self._references(answer):
            if name in seen:
                continue
            seen.add(name)
            if len(seen) > MOST_REFERENCES:
                raise RegistryError(
                    f"a schema of the registry {self._address} refers to more than {MOST_REFERENCES} others"
                )
            path = f"/subjects/{urllib.parse.quote(subject, safe='', errors='replace')}/versions/{version}"
            inner = self._ask(path + ("?format=serialized" if kind == PROTOBUF else ""))
            if inner is None:
                raise RegistryError(
                    f"the registry {self._address} lacks {subject[:SHOWN]} version {version}, which a schema refers to"
                )
            self._follow(inner, kind, found, seen)
            found[name] = self._text(inner)

    def _references(self, answer: dict[str, Any]) -> list[tuple[str, str, int]]:
        """Return name, subject and version of the schemas that a response refers to."""
        given = answer.get("references")
        found = []
        for each in given if isinstance(given, list) else [] if given is None else [given]:
            name, subject, version = (
                (each.get(key) for key in ("name", "subject", "version")) if isinstance(each, dict) else (None,) * 3
            )
            if not isinstance(name, str) or not isinstance(subject, str) or type(version) is not int:
                raise RegistryError(
                    f"the registry {self._address} returns a reference without name, subject or version"
                )
            found.append((name, subject, version))
        return found

    def _kind(self, answer: dict[str, Any]) -> str:
        named = answer.get("schemaType") or "AVRO"
        found = _KINDS.get(named) if isinstance(named, str) else None
        if found is None:
            raise RegistryError(
                f"the registry {self._address} has a schema of type {str(named)[:SHOWN]}, which is not known here"
            )
        return found

    def _text(self, answer: dict[str, Any]) -> str:
        text = answer.get("schema")
        if not isinstance(text, str):
            raise RegistryError(f"the registry {self._address} returned no schema")
        return text

    def _ask(self, path: str) -> dict[str, Any] | None:
        """Return the object in a response, or None if it does not exist. Raises `RegistryError` if all tries fail."""
        reason = ""
        for attempt in range(TRIES):
            if attempt:
                self._sleep(PAUSE_S * attempt)
            try:
                request = urllib.request.Request(self._address + path, headers=self._headers)
                with self._open(request, timeout=TIMEOUT_S) as answer:
                    text = answer.read(MOST_ANSWER + 1)
            except urllib.error.HTTPError as error:
                told = _told(error)
                if error.code == 404 and told.get("error_code") in _NOT_FOUND:
                    return None
                reason = f"returned {error.code} {error.reason}"
                if error.code < 500 and error.code != 429:
                    break
                continue
            except (OSError, http.client.HTTPException) as error:
                reason = f"cannot be reached: {getattr(error, 'reason', error) or type(error).__name__}"
                continue
            if len(text) > MOST_ANSWER:
                raise RegistryError(f"the registry {self._address} returned more than {MOST_ANSWER} bytes")
            found = _object(text)
            if not found:
                raise RegistryError(f"{self._address} is not a schema registry: it did not return a JSON object")
            return found
        raise RegistryError(f"the registry {self._address} {reason}")


def _told(error: urllib.error.HTTPError) -> dict[str, Any]:
    """Return the JSON object of an error response, or an empty one if it cannot be read."""
    try:
        with error:
            return _object(error.read(MOST_ANSWER))
    except (OSError, http.client.HTTPException):
        return {}


def _object(text: bytes) -> dict[str, Any]:
    """Return a JSON object, or an empty one if the text is not a JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _positions(body: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the positions of the message, and the start of the payload. Raises `UnfitBody` if they are damaged."""
    count, at = _unzigzag(body, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= MOST_POSITIONS:
        raise UnfitBody("the positions of its message are damaged")
    found = []
    for _ in range(count):
        position, at = _unzigzag(body, at)
        if position < 0:
            raise UnfitBody("the positions of its message are damaged")
        found.append(position)
    return tuple(found), at


def _unzigzag(body: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(body):
            break
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise UnfitBody("the positions of its message are damaged")


def _zigzag(value: int) -> bytes:
    value <<= 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
