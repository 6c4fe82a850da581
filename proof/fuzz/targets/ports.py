"""The ports of a running broker and name server: whole requests, torn ones, noise, answers nobody asked for, and time.

An input is a list of such steps. After it nothing may be broken: no answer is an internal error, nothing is logged as
one, and an honest producer is served. Inputs share a node until it has served many; what fails only after others is
stored together with them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from bolide.remoting import codes
from bolide.remoting.command import make_response
from proof.fuzz.choices import Choices
from proof.fuzz.house import House, Peer
from proof.fuzz.requests import frame_of, written
from proof.fuzz.target import MIB, Broken, Limits, Target

NEXT: Final = b"\xf5\xf6NEXT\xf7\xf8"
"""Between inputs that are stored together."""
INPUTS_A_NODE: Final = 40
STEPS: Final = 24
PORTS: Final = ("broker", "fast", "namesrv")
PAUSES: Final = (*(0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5) * 4, *(1.0, 2.0, 3.0, 6.0, 16.0, 61.0))
"""Virtual seconds between two steps. Long ones take a while in real time, too: something ticks all the time."""
OPERATORS: Final = frozenset({
    codes.UPDATE_BROKER_CONFIG, codes.UPDATE_AND_CREATE_TOPIC, codes.UPDATE_AND_CREATE_TOPIC_LIST,
    codes.DELETE_TOPIC_IN_BROKER,
})  # fmt: skip
"""After these a plain send may be refused: they are asked to change what is allowed."""


class Node:
    """The node that inputs share, and what it has been given."""

    def __init__(self) -> None:
        self.house: House | None = None
        self.given: list[bytes] = []
        self.operated = False

    def fresh(self) -> House:
        """A node that has served nothing yet."""
        self.close()
        self.house = House()
        return self.house

    def close(self) -> None:
        """End the node."""
        house, self.house = self.house, None
        self.given, self.operated = [], False
        if house is not None:
            house.close()


class PortTarget:
    """The target of one port. `first` is the port that an input begins with."""

    def __init__(self, first: str) -> None:
        self._first = first
        self._node = Node()

    def run(self, data: bytes) -> None:
        """Steps on the shared node; several inputs joined by `NEXT` get a node of their own."""
        parts = data.split(NEXT)
        if len(parts) > 1:
            self._node.fresh()
        for part in parts:
            self._one(part)
        if len(parts) > 1:
            self._end()

    def close(self) -> None:
        """End the node."""
        self._node.close()

    def _one(self, data: bytes) -> None:
        node = self._node
        house = node.house if node.house is not None else node.fresh()
        node.given.append(data)
        served = True
        try:
            served = house.run(self._session(house, data))
        except Exception as error:
            self._tell(error, data)
        except BaseException:
            node.house = None  # stopped at any place: not even its stop can be trusted
            raise
        if not served or len(node.given) >= INPUTS_A_NODE:
            self._end()

    def _end(self) -> None:
        """The node has served enough: it stops, and starts again on what it left."""
        node = self._node
        house = node.house
        if house is None:
            return
        try:
            house.run(self._restart(house, node.operated))
        except Exception as error:
            self._tell(error, b"")
        node.close()

    def _tell(self, error: Exception, data: bytes) -> None:
        """Raise the error; with it, unless the input alone is enough, what the node was given before."""
        node = self._node
        given = node.given
        with contextlib.suppress(Exception):
            node.close()
        node.house = None
        if len(given) > 1:
            house = node.fresh()
            alone = False
            try:
                house.run(self._session(house, data))
            except Exception:
                alone = True
            with contextlib.suppress(Exception):
                node.close()
            node.house = None
            if not alone:
                error.instead = NEXT.join([*given, b""])  # type: ignore[attr-defined]  # read by proof.fuzz.watch
        node.given = []
        raise error

    async def _restart(self, house: House, operated: bool) -> None:
        await house.restart()
        code = await house.plain_send()
        house.check([])
        if code != codes.SUCCESS and not operated:
            raise Broken(f"after a restart a plain send is answered {code}")

    async def _session(self, house: House, data: bytes) -> bool:
        """Whether an honest producer is served after these steps; raises when that is not allowed to be so."""
        choices = Choices(data)
        port = self._first
        peers = [await house.connect(port)]
        here = peers[0]
        steps = 0
        while choices.left and steps < STEPS:
            steps += 1
            if not here.alive:
                here = await house.connect(port)
                peers.append(here)
            kind = choices.byte() % 16
            if kind == 11:
                here.close()
            elif kind == 12:
                await asyncio.sleep(choices.pick(PAUSES))
            elif kind == 15:
                port = choices.pick((self._first, *PORTS))
                here = await house.connect(port)
                peers.append(here)
            else:
                await self._speak(house, here, port, kind, choices)
        await asyncio.sleep(0.2)
        house.check(peers)
        for peer in peers:
            peer.close()
        code = await house.plain_send()
        house.check([])
        if code != codes.SUCCESS and not self._node.operated:
            raise Broken(f"a plain send is answered {code}")
        return bool(code == codes.SUCCESS)

    async def _speak(self, house: House, here: Peer, port: str, kind: int, choices: Choices) -> None:
        """Send something over a connection."""
        if kind == 9:
            here.write(choices.piece())
        elif kind == 10:
            length, mark = choices.number(), choices.number()
            here.write((length & 0xFFFFFFFF).to_bytes(4, "big") + (mark & 0xFFFFFFFF).to_bytes(4, "big"))
            here.write(choices.piece())
        elif kind == 13:
            asked = [command for command in here.arrived if not command.is_response]
            request = asked[-1] if asked else None
            if request is not None:
                code = choices.pick((0, 1, 206, 207))
                body = choices.pick((b"", b'{"result":"CR_SUCCESS"}', b"{", b"null", b'{"offsetTable":{}}'))
                here.write(written(make_response(request, code, choices.text() if choices.flag() else None, {}, body)))
        else:
            code, frame = frame_of(choices, house.table(port), house.next_opaque())
            self._node.operated = self._node.operated or code in OPERATORS
            if kind == 14:
                at = choices.below(len(frame))
                here.write(frame[:at])
                await asyncio.sleep(choices.pick(PAUSES))
                here.write(frame[at:])
            else:
                here.write(frame)


def _steps() -> Iterable[bytes]:
    """Each code once, and then several of a kind."""
    for code in range(110):
        yield bytes([0, code]) + bytes(24)
        yield bytes([1, code]) + bytes(range(1, 25)) + bytes([12, 3, 2, (code * 7) % 110]) + bytes(20)
    yield b"\x09\x20GET / HTTP/1.1\r\nHost: broker\r\n\r\n"
    yield b"\x09\x40PROXY TCP4 10.1.2.3 10.1.2.4 5678 10911\r\n" + bytes(24)
    yield bytes([10, 35, 0, 4]) + bytes(8)


def _target(port: str, name: str) -> Target:
    made = PortTarget(port)
    return Target(
        name, made.run, _steps, Limits(memory=256 * MIB, steps=0, seconds=60), largest=1024, cost=60, close=made.close
    )


TARGETS: Final = (
    _target("broker", "port_broker"),
    _target("fast", "port_fast"),
    _target("namesrv", "port_namesrv"),
)
