"""QUERY_ASSIGNMENT (400): the broker assigns queues to 5.x consumers. Also serves the request modes (401, 402).

RocketMQ's QueryAssignmentProcessor (docs/protocol/behaviour.md 12). The queues are those of the topic's route, on any
broker. The node fetches the route from a name server, and the request is held until it responds. Without a name server,
only the queues of this broker are assigned. Every queue is assigned for pulls: POP is not supported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.outcome import ROUTE, Hold, Outcome, Reply, Waiter, reply
from bolide.broker.core.service import Routes, Table
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import TABLES_AT_MASTER
from bolide.broker.tables.clients import Clients
from bolide.broker.tables.groups import GroupTable
from bolide.broker.tables.topics import TopicTable
from bolide.layout.names import LMQ_PREFIX, RETRY_PREFIX
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue, decode_body, encode_body
from bolide.remoting.bodies.clients import MessageModel
from bolide.remoting.bodies.query import (
    MessageQueueAssignment,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from bolide.remoting.command import Command, make_response
from bolide.remoting.json import parse_long
from bolide.remoting.request_access import ASSIGNMENT, SIGNED_GET, SIGNED_UPDATE
from bolide.remoting.request_routes import Kind, RawRoute

PULL: Final = "PULL"
FRESH_MS: Final = 30_000
"""Age from which a route is fetched again. The known route is used until then."""
ROUTE_WAIT_MS: Final = 3_000
ROUTES_KEPT: Final = 10_000


class AssignmentService(Table):
    """Assigns the queues of a topic to the clients of a group."""

    def __init__(
        self,
        options: BrokerOptions,
        topics: TopicTable,
        groups: GroupTable,
        clients: Clients,
        effects: Effects,
        ask_route: Callable[[str], None] | None = None,
    ) -> None:
        """`ask_route` fetches a topic's route; `route_arrived` is called with the response. None: no name server."""
        super().__init__("messageRequestMode")
        self._broker = options.place.broker_name
        self._lmq = options.shape.enable_lmq
        self._most = options.tables.max_groups
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._effects = effects
        self._ask_route = ask_route
        self._routes: dict[str, tuple[int, list[MessageQueue] | None]] = {}
        self._modes: dict[str, dict[str, Any]] = {}

    def routes(self) -> Routes:
        return [
            RawRoute(codes.QUERY_ASSIGNMENT, None, self.on_query, Kind.READ, access=ASSIGNMENT),
            RawRoute(
                codes.SET_MESSAGE_REQUEST_MODE,
                None,
                self.on_set_mode,
                Kind.CHANGE,
                at_master=TABLES_AT_MASTER,
                access=SIGNED_UPDATE,
            ),
            RawRoute(codes.GET_ALL_MESSAGE_REQUEST_MODE, None, self.on_all_modes, Kind.READ, access=SIGNED_GET),
        ]

    def on_query(self, channel: Channel, command: Command, now: int) -> Outcome:
        body = decode_body(command.body, QueryAssignmentRequestBody)
        if self._ask_route is None or self._is_light(body):
            return self._answer(command, body, self._own_queues(body.topic))
        known = self._routes.get(body.topic)
        if known is None or known[1] is None or now - known[0] > FRESH_MS:
            self._ask_route(body.topic)
        if known is not None and known[1] is not None:
            return self._answer(command, body, known[1])

        def again(later: int) -> Outcome:
            found = self._routes.get(body.topic)
            return self._answer(command, body, None if found is None else found[1])

        return Hold(Waiter(channel, command, (body.topic, ROUTE), now + ROUTE_WAIT_MS, again))

    def route_arrived(self, topic: str, queues: list[MessageQueue] | None, now: int) -> None:
        """Store the readable queues of a topic and wake the pending requests. `queues` is None if no name server
        responded; known queues are kept then."""
        known = self._routes.get(topic)
        if queues is not None or known is None:
            if len(self._routes) >= ROUTES_KEPT:
                self._routes.clear()
            self._routes[topic] = (now, None if queues is None else sorted(queues))
        self._effects.release((topic, ROUTE))

    def _is_light(self, body: QueryAssignmentRequestBody) -> bool:
        """Return whether the topic is a light queue (LMQ). Name servers do not list light queues: they are on the
        queried broker."""
        return self._lmq and body.topic.startswith(LMQ_PREFIX) and body.message_model != MessageModel.BROADCASTING

    def _own_queues(self, topic: str) -> list[MessageQueue] | None:
        config = self._topics.get(topic)
        if config is None:
            return None
        count = config.read_queue_nums if config.readable else 0
        return [MessageQueue(topic, self._broker, queue_id) for queue_id in range(count)]

    def _answer(self, command: Command, body: QueryAssignmentRequestBody, queues: list[MessageQueue] | None) -> Reply:
        """Return the response. With null assignments, the client keeps its queues and retries."""
        mine = None if queues is None else self._share(body, queues)
        given = None if mine is None else [MessageQueueAssignment(queue, PULL) for queue in mine]
        content = {"messageQueueAssignments": None} if given is None else QueryAssignmentResponseBody(given)
        return reply(make_response(command, codes.SUCCESS, body=encode_body(content)))

    def _share(self, body: QueryAssignmentRequestBody, queues: list[MessageQueue]) -> list[MessageQueue] | None:
        if body.message_model == MessageModel.BROADCASTING:
            return queues
        group = self._clients.consumer_group(body.consumer_group)
        strategy = STRATEGIES.get(body.strategy_name)
        if group is None or strategy is None or not queues or not body.client_id:
            return None  # Java's strategies fail without queues, so the client keeps its queues
        # The order of Java's strings: by UTF-16 units.
        members = sorted(group.client_ids(), key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return strategy(body.client_id, queues, members) if body.client_id in members else []

    # -- modes

    def on_set_mode(self, channel: Channel, command: Command, now: int) -> Outcome:
        body = decode_body(command.body, SetMessageRequestModeRequestBody)
        if body.topic.startswith(RETRY_PREFIX):
            remark = "retry topic is not allowed to set mode"
            return reply(make_response(command, codes.NO_PERMISSION, remark))
        if self._topics.get(body.topic) is None:
            return reply(make_response(command, codes.TOPIC_NOT_EXIST, f"topic[{body.topic}] not exist"))
        if self._groups.find(body.consumer_group, now) is None:
            remark = "subscription group does not exist"
            return reply(make_response(command, codes.SUBSCRIPTION_GROUP_NOT_EXIST, remark))
        if body.mode != PULL:
            remark = f"the mode {body.mode} is not served by this broker: leave it at PULL"
            return reply(make_response(command, codes.INVALID_PARAMETER, remark))
        modes = self._modes.get(body.topic, {})
        if body.consumer_group not in modes and sum(map(len, self._modes.values())) >= self._most:
            remark = f"{self._most} modes are kept, as many as maxGroups"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        self._modes.setdefault(body.topic, {})[body.consumer_group] = {
            "consumerGroup": body.consumer_group,
            "mode": body.mode,
            "popShareQueueNum": body.pop_share_queue_num,
            "topic": body.topic,
        }
        self._effects.persist(self.persist_name)
        return reply(make_response(command, codes.SUCCESS))

    def on_all_modes(self, channel: Channel, command: Command, now: int) -> Outcome:
        return reply(make_response(command, codes.SUCCESS, body=self.encode()))

    def follow(self, data: bytes) -> None:
        """Replace the request modes with the master's, and persist them if they changed."""
        before = self._modes
        self.load(data)
        if before != self._modes:
            self._effects.persist(self.persist_name)

    def encode(self) -> bytes:
        """Encode config/messageRequestMode.json, which is also the body of GET_ALL_MESSAGE_REQUEST_MODE (402)."""
        return encode_body({"messageRequestModeMap": self._modes})

    def load(self, data: bytes) -> None:
        """Load a file written by Java or Bolide. Unsupported modes are kept but ignored."""
        stored: Any = parse_long(data)
        table = stored.get("messageRequestModeMap") or {}
        self._modes = {str(topic): dict(groups) for topic, groups in table.items()}


def avg(client_id: str, queues: list[MessageQueue], members: list[str]) -> list[MessageQueue]:
    """AVG: contiguous queues. If they cannot be divided evenly, the first members get one more."""
    index, count = members.index(client_id), len(members)
    share, rest = divmod(len(queues), count)
    begin = index * share + min(index, rest)
    return queues[begin : begin + share + (1 if index < rest else 0)]


def avg_by_circle(client_id: str, queues: list[MessageQueue], members: list[str]) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: queues are assigned round robin."""
    return queues[members.index(client_id) :: len(members)]


STRATEGIES: Final = {"AVG": avg, "AVG_BY_CIRCLE": avg_by_circle}
