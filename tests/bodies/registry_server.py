"""A schema registry for tests: what Confluent's documentation says that one answers, from a thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def framed(number: int, payload: bytes, message: tuple[int, ...] | None = None) -> bytes:
    """A body as Confluent's serializers write it; `message` is the position of a Protobuf message."""
    head = b"\0" + number.to_bytes(4, "big")
    if message is None:
        return head + payload
    if message == (0,):
        return head + b"\0" + payload
    return head + b"".join(map(_zigzag, (len(message), *message))) + payload


def _zigzag(value: int) -> bytes:
    value <<= 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


class Served:
    """Schemas by id and subject, and every path that was asked for."""

    def __init__(self) -> None:
        self.by_id: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.authorized: list[str | None] = []
        self.failures: list[int] = []
        """Status codes of the next answers."""
        self.raw: bytes | None = None
        """Sent in place of an answer."""
        self.cut = False
        """Whether responses end before the length that they announce."""
        self.address = ""

    def add(self, subject: str, schema: str, kind: str = "AVRO", references: list[dict[str, Any]] | None = None) -> int:
        number = len(self.by_id) + 1
        self.by_id[number] = {"schema": schema, "schemaType": kind, "references": references or []}
        self.subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str) -> dict[str, Any] | None:
        """As the API: Protobuf in the form that `format=serialized` asks for, since tests have no other."""
        parts = path.partition("?")[0].split("/")[1:]
        if parts[:2] == ["schemas", "ids"]:
            found = self.by_id.get(int(parts[2]))
            if found is None or found["schemaType"] != "AVRO":
                return found
            return {name: value for name, value in found.items() if name != "schemaType"}  # left out for Avro
        numbers = self.subjects.get(parts[1].replace("%2F", "/"), [])
        if parts[3] == "latest":
            number = numbers[-1] if numbers else None
        else:
            number = numbers[int(parts[3]) - 1] if int(parts[3]) <= len(numbers) else None
        return None if number is None else {"subject": parts[1], "id": number, **self.by_id[number]}


@contextmanager
def registry() -> Iterator[Served]:
    served = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            served.authorized.append(self.headers.get("Authorization"))
            status = served.failures.pop(0) if served.failures else 200
            found = served.answer(self.path) if status == 200 else {"error_code": status}
            body = json.dumps(found or {"error_code": 40403}).encode() if served.raw is None else served.raw
            self.send_response(404 if found is None and served.raw is None else status)
            if status in (301, 302):
                self.send_header("Location", served.address + self.path)
            self.send_header("Content-Length", str(len(body) + served.cut))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="schema-registry")
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
