"""RemotingClient: requests to brokers and name servers, with hooks around them (RocketMQ's NettyRemotingClient)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bolide.client.instance.deadlines import before, no_connection
from bolide.client.instance.name_servers import NameServers
from bolide.client.instance.options import ClientOptions
from bolide.client.instance.troubles import NoNameServer, Troubles
from bolide.client.messages.errors import ResponseError, not_a_name_server, response_error
from bolide.client.messages.hooks import RpcCall
from bolide.client.messages.user_code import fit_for_futures, raise_interruption
from bolide.errors import BolideError, ConnectionLost, LocalError, ProtocolError, RequestTimeout, reason
from bolide.remoting import codes
from bolide.remoting.codes import BINARY_TYPE, JSON_TYPE
from bolide.remoting.command import Command, make_request
from bolide.transport.client import ClientConnection, OnRequest
from bolide.transport.pool import ConnectionPool

Greet = Callable[[ClientConnection], Awaitable[None]]
"""Called with a new connection before any other request uses it."""


class RemotingClient:
    """The connections of one client, and the calls over them. `on_request` receives requests from brokers."""

    def __init__(self, options: ClientOptions, on_request: OnRequest, greet: Greet) -> None:
        self.options = options
        self.client_id = options.client_id
        self.world = options.world
        self.pool = ConnectionPool(on_request, options.ssl, options.call_timeout, greet, options.world)
        self.troubles = Troubles()
        self.name_servers = NameServers(options.namesrv, options.world)
        # Clients start at different name servers, as RocketMQ's clients do.
        self._namesrv = options.world.random.randrange(1000)

    async def call(
        self,
        address: str,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,
        accept: tuple[int, ...] = (codes.SUCCESS,),
    ) -> Command:
        """Send a request and return the response. `timeout` includes a connection attempt; without it, the attempt and
        the request have `call_timeout` each. Raises `ResponseError` if the response's code is not in `accept`, and
        `ConnectionLost` or `RequestTimeout` without a response."""
        connection = self.pool.live(address)
        if connection is None and timeout is not None:
            connection, timeout = await self._connected_within(address, timeout)
        elif connection is None:
            connection = await self.pool.get(address)
        timeout = self.options.call_timeout if timeout is None else timeout
        answer = await self.call_on(connection, code, ext, body, timeout)
        if answer.code not in accept:
            raise response_error(answer.code, answer.remark, codes.request_name(code), address)
        return answer

    async def _connected_within(self, address: str, timeout: float) -> tuple[ClientConnection, float]:
        """Return a connection, and the seconds of `timeout` that remain. Raises `RequestTimeout` after
        `timeout` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        connection = await before(deadline, self.pool.get(address), no_connection(address))
        return connection, max(deadline - loop.time(), 0.001)

    async def call_on(
        self, connection: ClientConnection, code: int, ext: dict[str, str] | None, body: bytes, timeout: float
    ) -> Command:
        """Send a request and return the response, whatever its code. Calls the hooks before and after."""
        hooks = self.options.hooks
        if not hooks:
            return await connection.start(self._request(code, ext, body), timeout)
        call = RpcCall(connection.address, code, dict(ext or {}), body, False)
        for hook in hooks:
            _run_hook(hook.before, call)
        answer = await connection.start(self._request(code, call.ext, call.body), timeout)
        for hook in hooks:
            _run_hook(hook.after, call, answer)
        return answer

    async def oneway(self, address: str, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> None:
        """Send a request without a response. Raises `ConnectionLost`."""
        connection = self.pool.live(address) or await self.pool.get(address)
        call = RpcCall(address, code, dict(ext or {}), body, True)
        for hook in self.options.hooks:
            _run_hook(hook.before, call)
        connection.oneway(self._request(code, call.ext, call.body, oneway=True))

    def _request(self, code: int, ext: dict[str, str] | None, body: bytes, oneway: bool = False) -> Command:
        kind = BINARY_TYPE if self.options.binary_header else JSON_TYPE
        return make_request(code, 0, ext, body, oneway, kind)

    async def ask_namesrv(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        accept: tuple[int, ...] = (codes.SUCCESS,),
        timeout: float | None = None,
    ) -> Command:
        """Send a request to one name server, or to the next one if it is unreachable. Raises `NoNameServer` if all are
        unreachable, and `ResponseError` if a server rejects the request."""
        servers = await self.name_servers.known()
        failure: BolideError | None = None
        first = self._namesrv
        for number in range(first, first + len(servers)):  # each once, even if the shared position changes
            address = servers[number % len(servers)]
            try:
                answer = await self.call(address, code, ext, body, accept=accept, timeout=timeout)
            except (ConnectionLost, RequestTimeout, ProtocolError) as error:
                failure = error
                if self._namesrv == number:
                    self._namesrv += 1
            except ResponseError as error:
                self.troubles.name_servers_answer()
                raise not_a_name_server(error, address) from None
            else:
                self.troubles.name_servers_answer()
                return answer
        tried = f"none of {len(servers)} name servers can be reached, the last error: " if len(servers) > 1 else ""
        hint = "; is it a name server of RocketMQ?" if isinstance(failure, RequestTimeout | ProtocolError) else ""
        raise NoNameServer(f"{tried or 'the name server cannot be reached: '}{failure}{hint}") from failure


def _run_hook(method: Callable[..., None], *arguments: object) -> None:
    """Call a hook of the user. Raises its exception, or `LocalError` if that is not fit for a future."""
    try:
        method(*arguments)
    except BaseException as error:
        if fit_for_futures(error):
            raise
        raise_interruption(error)
        raise LocalError(f"the hook {method!r} failed: {reason(error)}") from error
