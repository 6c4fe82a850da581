"""The network between simulated machines: links with delays and partitions, and TCP connections on them.

A connection delivers bytes in order, or it ends. What differs from one run to the next is when, and in which pieces:
a piece ends at any byte. A blocked link holds back what is sent until it is healed and sent again, as TCP does; after
`GIVE_UP_S` the sender is told so. Windows are bounded: a peer that does not read stops its sender, whose further bytes
stay in the buffer of its own process.

* A process that is killed: its kernel closes its connections, with RST where bytes were not read, else FIN.
* A machine that loses power: its peers are told nothing. Bytes they send are answered by RST once it is up again.
* `black_hole`: nothing arrives on the connection in either direction, and neither side is told.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from proof.simulation.connection import Connection
from proof.simulation.link import Link
from proof.simulation.owner import Machine, Owner
from proof.simulation.scheduler import Scheduler

SYN_AT_S: Final = (0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0)
"""When Linux tries to connect; it gives up at 127 s."""
SYN_GIVE_UP_S: Final = 127.0


class Port:
    """A TCP port that a process has taken: a `bolide.world.contract.BoundPort`."""

    def __init__(self, network: Network, process: Owner, port: int) -> None:
        self.port = port
        self.process = process
        self.accepted: Callable[[], Any] | None = None
        self._network = network

    async def serve(self, accepted: Callable[[], Any]) -> None:
        """Accept connections from now on."""
        self.process.check()
        self.accepted = accepted

    def close(self) -> None:
        """Accept no more."""
        self.accepted = None
        self._network.release(self)


class Network:
    """All links, ports and connections of a simulation."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.hosts: dict[str, Machine] = {}
        self.names: dict[str, str] = {}
        self.ports: dict[tuple[str, int], Port] = {}
        self.connections: dict[int, Connection] = {}
        self.doubled = 0.0
        """Part of the connections that arrive twice; nothing is ever sent over the second."""
        self._links: dict[tuple[str, str], Link] = {}
        self._next_port: dict[str, int] = {}
        self._number = 0

    def link(self, source: str, target: str) -> Link:
        """The link from one address to another."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(self.scheduler.stream(f"link {source} {target}"))
        return link

    # ---- ports

    def free_port(self, ip: str) -> int:
        """A port that nobody has."""
        port = self._next_port[ip] = self._next_port.get(ip, 40_000) % 65_535 + 1
        return port if (ip, port) not in self.ports else self.free_port(ip)

    def bind(self, process: Owner, host: str, port: int) -> Port:
        """Take a port. Raises `OSError`."""
        ip = process.host.ip
        if self.address(process, host or ip) != ip:
            raise OSError(99, "Cannot assign requested address")
        port = port or self.free_port(ip)
        if (ip, port) in self.ports:
            raise OSError(98, "Address already in use")
        made = self.ports[ip, port] = Port(self, process, port)
        return made

    def release(self, port: Port) -> None:
        """The port is free again."""
        place = (port.process.host.ip, port.port)
        if self.ports.get(place) is port:
            del self.ports[place]

    def address(self, process: Owner, host: str) -> str:
        """The IP address that a name has for this process. Raises `OSError`."""
        if host in ("localhost", "127.0.0.1", process.host.ip):
            return process.host.ip
        found = self.names.get(host, host)
        if not found[:1].isdigit():
            raise OSError(-2, "Name or service not known")
        return found

    # ---- connections

    def reachable(self, source: str, target: str) -> bool:
        """Whether a packet and the answer to it arrive."""
        host = self.hosts.get(target)
        if host is None or not host.up:
            return False
        return not (self.link(source, target).blocked or self.link(target, source).blocked)

    async def connect(self, process: Owner, make: Callable[[], Any], host: str, port: int) -> Any:
        """A connection from a process to a port. Raises `OSError`."""
        process.check()
        source, target = process.host.ip, self.address(process, host)
        loop = process.loop
        future = loop.create_future()
        began = self.scheduler.now

        def answer(error: OSError | None) -> None:
            if not future.done():
                future.set_result(None) if error is None else future.set_exception(error)

        def syn(number: int) -> None:
            if future.done() or not process.alive:
                return
            there = self.link(source, target)
            if self.reachable(source, target):
                back = self.link(target, source)
                seconds = there.arrival(self.scheduler.now, 0) - self.scheduler.now
                arrives = back.arrival(self.scheduler.now + seconds, 0)
                known = (target, port) in self.ports and self.ports[target, port].accepted is not None
                refused = None if known else ConnectionRefusedError(111, "Connection refused")
                self.scheduler.at(arrives, partial(loop.arrive, answer, refused))
            elif number < len(SYN_AT_S):
                self.scheduler.at(began + SYN_AT_S[number], partial(syn, number + 1))
            else:
                late = TimeoutError(110, "Connection timed out")
                self.scheduler.at(began + SYN_GIVE_UP_S, partial(loop.arrive, answer, late))

        syn(1)
        await future
        found = self.ports.get((target, port))
        if found is None or found.accepted is None or not self.reachable(source, target):
            raise ConnectionResetError(104, "Connection reset by peer")
        return self._joined(process, make(), found)

    def _joined(self, process: Owner, protocol: Any, port: Port) -> Any:
        self._number += 1
        connection = Connection(self, self._number, process, port.process, self.free_port(process.host.ip), port.port)
        self.connections[self._number] = connection
        self.note(process, f"connection {connection}")
        connection.near.begin(protocol)
        connection.far.accept(port)
        if self.doubled and self.link(process.host.ip, port.process.host.ip).chance.random() < self.doubled:
            self._number += 1
            second = Connection(self, self._number, process, port.process, self.free_port(process.host.ip), port.port)
            self.connections[self._number] = second
            self.note(process, f"connection {second}, a second one that says nothing")
            second.far.accept(port)
        return protocol

    def ended(self, connection: Connection) -> None:
        """Neither side has it any more."""
        self.connections.pop(connection.number, None)

    def between(self, one: str, other: str = "") -> list[Connection]:
        """The connections between two machines, or all of one."""
        return [c for c in self.connections.values() if one in c.ips and (not other or other in c.ips)]

    # ---- faults

    def block(self, source: str, target: str) -> None:
        """Nothing arrives in this direction until it is healed."""
        self.link(source, target).blocked = True

    def heal(self, source: str, target: str) -> None:
        """What was held back is sent again, some time from now."""
        link = self.link(source, target)
        if link.blocked:
            link.blocked = False
            for connection in self.between(source, target):
                connection.healed()

    def blocked(self) -> list[tuple[str, str]]:
        """The directions that are blocked."""
        return [place for place, link in self._links.items() if link.blocked]

    def note(self, process: Owner, text: str) -> None:
        """A line of the trace."""
        self.scheduler.trace.note(self.scheduler.now, process.name, "net", text)

    def links(self) -> list[Link]:
        """All links used so far."""
        return list(self._links.values())
