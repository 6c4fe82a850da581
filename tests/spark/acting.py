"""A set with acting masters of which one broker runs, and the name server that shows it as id 0."""

from __future__ import annotations

import json
from collections.abc import Callable

from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from tests.client.scripted_broker import ScriptedBroker


class ActingSet(ScriptedBroker):
    """While `away`, the broker that answers is a slave in the place of its master, and no queue takes sends."""

    def __init__(self, name: str = "broker-a", queues: int = 2) -> None:
        super().__init__(name, queues)
        self.away = True
        self.acting = True
        """Whether the set takes part in acting masters at all."""
        self.perm: int | None = None
        """The permission of the topics; None: the write bit is missing while the master is away."""
        self.asked: Callable[[], None] = lambda: None
        """Called before each answer about a route."""

    def on_get_routeinfo_by_topic(self, command: Command) -> Command:
        self.asked()
        answer = super().on_get_routeinfo_by_topic(command)
        if answer.code == codes.SUCCESS:
            route = json.loads(answer.body)
            route["brokerDatas"][0]["enableActingMaster"] = self.acting
            route["queueDatas"][0]["perm"] = (4 if self.away else 6) if self.perm is None else self.perm
            answer.body = json.dumps(route).encode()
        return answer

    def on_get_broker_cluster_info(self, command: Command) -> Command:
        data = {
            "brokerAddrs": {"1" if self.away else "0": self.address},
            "brokerName": self.name,
            "cluster": "C",
            "enableActingMaster": self.acting,
        }
        body = {"brokerAddrTable": {self.name: data}, "clusterAddrTable": {"C": [self.name]}}
        return make_response(command, codes.SUCCESS, body=json.dumps(body).encode())
