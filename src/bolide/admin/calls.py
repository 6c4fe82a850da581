"""Base class of all administrative calls: a client without groups, the addresses of brokers, decoded responses.

The module of each noun contains a subclass; `bolide.admin.client.Admin` combines them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Annotated, Any, Final, Self, TypeVar, Unpack

from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.options import DEFAULT_NAMESRV, ClientOptions, ConnectionOptions, NameServers
from bolide.client.instance.process_id import is_parents
from bolide.client.instance.unclosed import Closeable
from bolide.client.messages.arguments import check_text
from bolide.client.messages.checked import SECONDS, Allowed
from bolide.client.messages.errors import ClientStateError, NoQueue
from bolide.client.messages.queue import MessageQueue
from bolide.errors import ArgumentError, BolideError, ConfigError
from bolide.layout.names import MASTER_ID
from bolide.remoting import codes
from bolide.remoting.bodies import base
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.bodies.route import ClusterInfo
from bolide.remoting.command import Command
from bolide.transport.address import split_address, split_addresses

T = TypeVar("T")


def _valid(split: Callable[[str], object], name: str, value: object) -> str:
    text = check_text(name, value)
    try:
        split(text)
    except ConfigError as error:
        raise ArgumentError(f"{name}: {error}", name) from None
    return text


ADDRESS: Final = Allowed("`host:port`", partial(_valid, split_address))
CONTROLLERS: Final = Allowed(
    "`host:port;host:port`", partial(_valid, lambda text: split_addresses(text) if text else None)
)


class AdminCalls(Closeable):
    """The connections of an admin object. ``async with Admin("host:port") as admin: ...``"""

    def __init__(
        self,
        namesrv: NameServers = DEFAULT_NAMESRV,
        *,
        timeout: Annotated[
            float,
            SECONDS("Limit for one request. A broker responds to a change once it is on disk, which may take seconds."),
        ] = 15.0,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        """Does not connect before `start`. Raises `ArgumentError`, which names the argument, if one is invalid."""
        namespace = connection.get("namespace")
        if namespace:
            raise ArgumentError(
                f"namespace is {namespace!r}, but an admin object uses whole names: leave it out, and write"
                f" {namespace}%topic",
                "namespace",
            )
        self._timeout = timeout
        self._options = ClientOptions.of(namesrv, **connection)
        self._instance: ClientInstance | None = None

    async def start(self) -> Self:
        """Prepare for calls. Connections are opened at their first use. A second call does nothing."""
        if self._instance is None:
            self._instance = ClientInstance.acquire(self._options)
            self._opened("Admin")
        return self

    async def close(self) -> None:
        """Close the connections. A second call does nothing."""
        if is_parents(self._open_in):
            return  # a forked child must not close its parent's connections
        self._closing()
        instance, self._instance = self._instance, None
        if instance is not None:
            await instance.release()

    def _state(self) -> str:
        return f"name servers {';'.join(self._options.namesrv)}"

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _client(self) -> ClientInstance:
        """The shared client. Raises `ClientStateError` before `start` and after `close`."""
        if self._instance is None:
            raise ClientStateError("the admin object is not started: use `async with` or await start()")
        self._instance.check_process()
        return self._instance

    # -- for subclasses

    async def ask(
        self,
        address: str,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        accept: tuple[int, ...] = (codes.SUCCESS,),
    ) -> Command:
        """Send a request to a broker. Raises `ResponseError`, `RequestTimeout` or `ConnectionLost`."""
        return await self._client.call(address, code, ext, body, timeout=self._timeout, accept=accept)

    async def ask_namesrv(
        self, code: int, ext: dict[str, str] | None = None, accept: tuple[int, ...] = (codes.SUCCESS,)
    ) -> Command:
        """Send a request to a name server, or to the next one if it is unreachable."""
        return await self._client.ask_namesrv(code, ext, accept=accept, timeout=self._timeout)

    async def tell_every_namesrv(
        self, code: int, ext: dict[str, str] | None = None, body: bytes = b""
    ) -> dict[str, Command]:
        """Send a request to all name servers, because they do not replicate to each other. Return the responses by
        address. If a name server fails, sends the request to the others and then raises the first error."""
        answers: dict[str, Command] = {}
        failure: BolideError | None = None
        for address in await self._client.name_servers.known():
            try:
                answers[address] = await self.ask(address, code, ext, body)
            except BolideError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return answers

    async def cluster_info(self) -> ClusterInfo:
        """Return all clusters, brokers and their addresses."""
        return decode_answer((await self.ask_namesrv(codes.GET_BROKER_CLUSTER_INFO)).body, ClusterInfo)

    async def masters(self, cluster: str | None = None, broker: str | None = None) -> dict[str, str]:
        """Return the masters' addresses by broker name, optionally for one cluster or one broker (a name or an
        address).

        Raises `NoQueue` if no master matches.
        """
        return masters_of(await self.cluster_info(), cluster, broker)

    async def topic_masters(self, topic: str) -> dict[str, str]:
        """Return the addresses of the masters that serve a topic, by broker name. Raises `TopicNotFound`."""
        route = await self._client.fetch_route(topic)
        return {name: known[MASTER_ID] for name, known in route.brokers.items() if MASTER_ID in known}

    async def topic_readers(self, topic: str) -> dict[str, str]:
        """Return the brokers to query about a topic's messages, by broker name: the master's address, or without a
        master the address of the replica with the smallest id. Raises `TopicNotFound`."""
        route = await self._client.fetch_route(topic)
        return {name: known[min(known)] for name, known in route.brokers.items() if known}

    async def reader_of(self, queue: MessageQueue) -> str:
        """Return the address to query about one queue, as `topic_readers` does. Raises `NoQueue` or `TopicNotFound`."""
        readers = await self.topic_readers(queue.topic)
        if queue.broker_name not in readers:
            raise NoQueue(f"{queue} has no broker now; topic {queue.topic} is on {', '.join(readers) or 'no broker'}")
        return readers[queue.broker_name]

    async def master_of(self, queue: MessageQueue) -> str:
        """Return the address of a queue's master. Raises `NoQueue` or `TopicNotFound`."""
        masters = await self.topic_masters(queue.topic)
        if queue.broker_name not in masters:
            raise NoQueue(f"{queue} has no master now; topic {queue.topic} is on {', '.join(masters) or 'no broker'}")
        return masters[queue.broker_name]

    async def decoded(self, kind: type[T], address: str, code: int, ext: dict[str, str] | None = None) -> T:
        """Send a request to a broker and decode the response's body."""
        return decode_answer((await self.ask(address, code, ext)).body, kind)


def masters_of(info: ClusterInfo, cluster: str | None = None, broker: str | None = None) -> dict[str, str]:
    """Return the masters' addresses as `AdminCalls.masters` does. Raises `NoQueue` if no master matches."""
    found = {}
    for name, data in info.broker_addr_table.items():
        address = data.broker_addrs.get(MASTER_ID)
        if address is None or (cluster is not None and name not in info.cluster_addr_table.get(cluster, ())):
            continue
        if broker is None or broker in (name, address):
            found[name] = address
    if not found:
        wanted = f"broker {broker}" if broker else f"cluster {cluster}" if cluster else "any broker"
        known = ", ".join(sorted(info.broker_addr_table)) or "none"
        raise NoQueue(f"no master of {wanted} is registered; known brokers: {known}")
    return found


def queue_from(queue: base.MessageQueue) -> MessageQueue:
    """Convert a queue of a decoded body."""
    return MessageQueue(queue.topic, queue.broker_name, queue.queue_id)


def ext_of(**fields: Any) -> dict[str, str]:
    """Return header fields by their wire names. Omits None; booleans are lower case."""
    return {
        name: ("true" if value else "false") if isinstance(value, bool) else str(value)
        for name, value in fields.items()
        if value is not None
    }
