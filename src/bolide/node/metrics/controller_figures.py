"""Metrics and readiness of a controller. A metric of RocketMQ has RocketMQ's name. Other names have the prefix
`bolide_`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bolide.controller.consensus import ConsensusStore
from bolide.controller.server import Controller
from bolide.monitor.families import Families
from bolide.node.metrics.certificates import add_certificates
from bolide.remoting.codes import request_name
from bolide.version import VERSION


@dataclass(frozen=True)
class ControllerSource:
    """Sources of the metrics. `answers`: number of responses by request code and success."""

    controller: Controller
    store: ConsensusStore
    address: str
    answers: Callable[[], list[tuple[tuple[int, bool], int]]]
    deciding: Callable[[], int]
    connections: Callable[[], int]
    requests: Callable[[], int]
    certificate_ends: Callable[[], dict[str, int]]


class ControllerFigures:
    """Metrics of one controller. Metrics of sets exist only on the leader; every controller reports live brokers."""

    def __init__(self, source: ControllerSource) -> None:
        self._source = source

    def add_all(self, families: Families, now: int, wall: int) -> None:
        """Add all metrics. `now`: the node's clock; `wall`: wall clock in ms since 1970."""
        self._requests(families)
        self._leadership(families)
        self._sets(families, now)
        families.gauge("bolide_connections", "Open connections.", self._source.connections())
        add_certificates(families, self._source.certificate_ends(), wall)
        families.gauge("bolide_build_info", "Always 1.", 1, version=VERSION, role="CONTROLLER")

    def _requests(self, families: Families) -> None:
        for (code, done), count in self._source.answers():
            families.counter(
                "request_total",
                "Requests that were answered.",
                count,
                request_type=request_name(code).lower(),
                request_handle_status="success" if done else "failed",
            )
        for (cluster, name, result), count in list(self._source.controller.elections.counts.items()):
            families.counter(
                "election_total",
                "Elections of a master.",
                count,
                cluster=cluster,
                broker_set=name,
                election_result=result,
            )
        families.counter("bolide_requests_total", "Requests of all kinds.", self._source.requests())
        families.gauge("bolide_controller_deciding", "Decisions that wait to be kept.", self._source.deciding())

    def _leadership(self, families: Families) -> None:
        store = self._source.store
        known = store.leadership.leader is not None
        families.gauge("bolide_controller_leads", "1 while this controller leads.", int(self._source.controller.leads))
        families.gauge("bolide_controller_leader_known", "1 while it knows one that leads.", int(known))
        families.gauge("bolide_controller_store_reached", "1 while decisions can be kept.", int(store.reached))
        families.gauge("bolide_controller_members", "Controllers of the group that live.", len(store.leadership.peers))

    def _sets(self, families: Families, now: int) -> None:
        controller = self._source.controller
        for (cluster, name), count in controller.live.counts(now).items():
            families.gauge("active_broker_num", "Brokers that live.", count, cluster=cluster, broker_set=name)
        sets = [each.value for each in list(controller.sets.values()) if each.value.replicas]
        families.gauge("bolide_controller_sets", "Sets of replicas, while this controller leads.", len(sets))
        without = sum(one.master is None for one in sets)
        families.gauge("bolide_controller_sets_without_master", "Those that have no master.", without)
        for one in sets:
            labels = {"cluster": one.cluster, "broker_set": one.name}
            families.gauge(
                "bolide_controller_has_master", "1 while a set has one.", int(one.master is not None), **labels
            )
            families.gauge("bolide_controller_replicas", "Brokers of a set.", len(one.replicas), **labels)
            families.gauge("bolide_controller_in_sync_replicas", "Those in sync.", len(one.in_sync), **labels)
            families.gauge("bolide_controller_master_epoch", "Epoch of its master.", one.master_epoch, **labels)
            waits = controller.elections.waiting.get(one.name)
            families.gauge(
                "bolide_controller_election_waits",
                "1 while the election of a master waits for members of the last set in sync, or for an operator.",
                int(waits is not None),
                **labels,
            )
            families.gauge(
                "bolide_controller_missing_members",
                "Members that such an election waits for.",
                0 if waits is None else len(waits.missing),
                **labels,
            )


def controller_troubles(source: ControllerSource) -> list[str]:
    """Return the reasons why brokers should not use this controller, or an empty list if it is the leader or knows the
    leader. Thread-safe."""
    store, leader = source.store, source.store.leadership.leader
    if not store.reached:
        return ["no decision can be stored: the controllerStore does not respond, or rejects writes"]
    if leader is None:
        return ["no controller is the leader"]
    if leader.address == source.address and not source.controller.leads:
        return ["this controller was elected leader, but has not read the controllerStore yet"]
    return []
