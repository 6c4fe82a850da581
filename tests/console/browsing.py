"""A console in this process with a browser that has no script: its pages, and its forms with their tokens."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any, Final, TypeVar

from httpx2 import Response
from starlette.testclient import TestClient

from bolide.client import Message
from bolide.console.app import Console, ConsoleOptions
from bolide.testing.broker import Broker
from bolide.world.clocks import now_ms
from tests.client.patient import Producer

T = TypeVar("T")

TOKEN: Final = re.compile(r'name="token" value="([0-9a-f]{64})"')
NASTY: Final = "<script>alert(1)</script>\"'>&"
"""What no page may give back as it is."""


class Clock:
    """Seconds that a test moves: cached answers and sessions grow old by it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Browser:
    """One browser at one console."""

    def __init__(self, client: TestClient, clock: Clock) -> None:
        self.client = client
        self.clock = clock
        self.token = ""

    def get(self, path: str, status: int = 200) -> str:
        """A page as text, asked for after all that was cached has grown old."""
        self.clock.now += 60
        answer = self.client.get(path)
        assert answer.status_code == status, f"{path}: {answer.status_code} {shown(answer)}"
        found = TOKEN.search(answer.text)
        self.token = found[1] if found else self.token
        return answer.text

    def post(self, path: str, fields: dict[str, Any], back: str = "/") -> Response:
        """The answer to a form, which is not followed."""
        self.clock.now += 60
        if not self.token:
            self.get("/topics")
        data = {"token": self.token, "back": back, **fields}
        return self.client.post(path, data=data, follow_redirects=False)

    def change(self, path: str, fields: dict[str, Any], back: str = "/") -> str:
        """The page after a change, with its notice."""
        answer = self.post(path, fields, back)
        assert answer.status_code == 303, f"{path}: {answer.status_code} {shown(answer)}"
        return unescape(self.get(answer.headers["location"]))


def shown(answer: Response) -> str:
    """What an error page says."""
    found = re.search(r'role="(?:alert|status)">(.*?)</p>', answer.text, re.DOTALL)
    return unescape(found[1]) if found else answer.text[:500]


def text_of(page: str) -> str:
    """What a person reads of a page: blanks for tags."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())


@contextmanager
def browsing(broker: Broker, peer: str = "127.0.0.1", **options: Any) -> Iterator[Browser]:
    """A browser at a console for this broker. `peer` is the address of its connection."""
    clock = Clock()
    console = Console(ConsoleOptions(broker.namesrv_addr, clock=clock, wall_ms=now_ms, **options))
    with TestClient(console.app(), base_url="http://127.0.0.1", client=(peer, 50_000)) as client:
        yield Browser(client, clock)


def with_producer(broker: Broker, work: Callable[[Producer], Coroutine[Any, Any, T]], **options: Any) -> T:
    """What `work` returns, given a producer."""

    async def main() -> T:
        async with Producer("P", broker.namesrv_addr, **options) as producer:
            return await work(producer)

    return asyncio.run(main())


def send(broker: Broker, *messages: Message, **options: Any) -> list[Any]:
    """Send messages one after the other; their results."""

    async def work(producer: Producer) -> list[Any]:
        return [await producer.send(message) for message in messages]

    return with_producer(broker, work, **options)
