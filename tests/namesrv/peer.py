"""A name server with a clock in the hand, and peers that talk to it in bytes."""

from __future__ import annotations

from typing import Any

from bolide.namesrv.options import NamesrvOptions
from bolide.namesrv.server import NameServer
from bolide.remoting import codes
from bolide.remoting.bodies.topics import TopicConfig
from bolide.remoting.bodies.versions import DataVersion
from bolide.remoting.command import Command, make_request
from bolide.remoting.connection import FramedConnection
from bolide.remoting.headers import Header
from bolide.remoting.headers.namesrv import RegisterBrokerRequestHeader
from bolide.remoting.register import RegisterBrokerBody, body_checksum, encode_register_body

START = 1_700_000_000_000


class World:
    """One name server, its clock, and the channel ids handed out so far."""

    def __init__(self, kv: bytes = b"", **options: Any) -> None:
        self.server = NameServer(NamesrvOptions(**options), kv, START)
        self.now = START
        self.channels = 0

    def pass_time(self, ms: int) -> None:
        """Let the clock run, with every tick that falls due on the way."""
        end = self.now + ms
        while (due := self.server.due(self.now)) is not None and due <= end:
            self.now = max(self.now, due)
            self.server.tick(self.now)
        self.now = end

    def peer(self) -> Peer:
        """A new connection."""
        self.channels += 1
        return Peer(self, self.channels)


class Peer:
    """One connection to the name server of a world; every request and answer crosses as bytes."""

    def __init__(self, world: World, channel_id: int) -> None:
        self.world = world
        self.channel_id = channel_id
        self.opaque = 0

    def send(self, request: Command) -> Command | None:
        """The answer to a request as it comes out at this end."""
        there, back = FramedConnection(), FramedConnection()
        there.send(request)
        (received,) = back.receive(b"".join(there.data_to_send()))
        answer = self.world.server.handle(self.channel_id, "1.2.3.4:5", received, self.world.now)
        if answer is None:
            return None
        back.send(answer)
        (response,) = there.receive(b"".join(back.data_to_send()))
        assert response.is_response
        assert response.opaque == request.opaque
        return response

    def ask(
        self,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        expect: int = codes.SUCCESS,
        version: int = codes.VERSION_5_5_0,
    ) -> Command:
        """Ask, and see that the answer has the code expected."""
        self.opaque += 1
        ext = header.to_ext() if header is not None else None
        response = self.send(make_request(code, self.opaque, ext, body, version=version))
        assert response is not None
        assert response.code == expect, response.remark
        return response

    def close(self) -> None:
        """Drop the connection."""
        self.world.server.channel_closed(self.channel_id, self.world.now)


class FakeBroker(Peer):
    """A broker as a name server sees it."""

    def __init__(
        self, world: World, name: str = "broker-a", broker_id: int = 0, addr: str = "10.0.0.1:10911", cluster: str = "c"
    ) -> None:
        super().__init__(world, world.peer().channel_id)
        self.name = name
        self.broker_id = broker_id
        self.addr = addr
        self.cluster = cluster
        self.topics: dict[str, TopicConfig] = {"TBW102": TopicConfig("TBW102", 8, 8, 7)}
        self.data_version = DataVersion(START, 1)
        self.filter_servers: list[str] = []

    def topic(self, name: str, **fields: Any) -> FakeBroker:
        """Add or change a topic."""
        self.topics[name] = TopicConfig(name, **fields)
        self.data_version = self.data_version.next(self.world.now)
        return self

    def header(self, **fields: Any) -> RegisterBrokerRequestHeader:
        """The header of its registration."""
        values: dict[str, Any] = {
            "broker_name": self.name,
            "broker_addr": self.addr,
            "cluster_name": self.cluster,
            "ha_server_addr": self.addr.replace("10911", "10912"),
            "broker_id": self.broker_id,
        }
        return RegisterBrokerRequestHeader(**(values | fields))

    def body(self) -> RegisterBrokerBody:
        """The body of its registration."""
        body = RegisterBrokerBody(filter_server_list=self.filter_servers)
        body.topic_config_serialize_wrapper.topic_config_table = self.topics
        body.topic_config_serialize_wrapper.data_version = self.data_version
        return body

    def register(
        self,
        expect: int = codes.SUCCESS,
        compressed: bool = False,
        say_compressed: bool | None = None,
        version: int = codes.VERSION_5_5_0,
        **fields: Any,
    ) -> Command:
        """REGISTER_BROKER."""
        data = encode_register_body(self.body(), compressed, version)
        said = compressed if say_compressed is None else say_compressed
        header = self.header(**({"compressed": said, "body_crc32": body_checksum(data)} | fields))
        return self.ask(codes.REGISTER_BROKER, header, data, expect, version)
