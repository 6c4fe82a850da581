"""Which name servers a call asks while others fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bolide.client.instance.options import ClientOptions
from bolide.client.instance.remoting_client import RemotingClient, _run_hook
from bolide.client.instance.troubles import NoNameServer
from bolide.errors import ConnectionLost, LocalError
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from proof.kit.waiting import until
from tests.client.messages.escapes import ESCAPES

SERVERS = ("127.0.0.1:1", "127.0.0.1:2")


class Unreached(RemotingClient):
    """A client whose calls fail, but for the patient one: its first call fails later, and its second is answered."""

    def __init__(self) -> None:
        super().__init__(ClientOptions(namesrv=SERVERS), self._nothing, self._nothing)
        self.asked: list[str] = []
        self.late = asyncio.Event()

    async def _nothing(self, *given: object) -> Any:
        raise AssertionError("nothing is connected")

    async def call(self, address: str, code: int, ext: dict[str, str] | None = None, *_: Any, **more: Any) -> Command:
        if ext:
            self.asked.append(address)
            if len(self.asked) > 1:
                return make_request(code, 0)
            await self.late.wait()
        raise ConnectionLost(f"{address} cannot be reached")


async def test_a_call_asks_each_name_server_once_whatever_others_find() -> None:
    client = Unreached()
    patient = asyncio.create_task(client.ask_namesrv(codes.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}))
    await until(lambda: client.asked, "the first call")
    with pytest.raises(NoNameServer):
        await client.ask_namesrv(codes.GET_ROUTEINFO_BY_TOPIC)
    client.late.set()
    await patient
    assert sorted(client.asked) == sorted(SERVERS)


@pytest.mark.parametrize("kind", ESCAPES)
def test_an_error_of_a_hook_that_no_future_may_contain_is_a_local_error(kind: type[BaseException]) -> None:
    def hook() -> None:
        raise kind

    with pytest.raises(LocalError, match="the hook .* failed"):
        _run_hook(hook)


def test_an_exception_of_a_hook_is_raised() -> None:
    def hook() -> None:
        raise KeyError("missing")

    with pytest.raises(KeyError):
        _run_hook(hook)
