"""The overview of the cluster, the page of a broker, and the stores of all brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from starlette.responses import Response

from bolide.admin import ReplicaRow
from bolide.console.figures import ShownBroker, soon_ending
from bolide.console.render import link
from bolide.console.visit import Page, Visit, missing
from bolide.errors import BolideError


async def cluster(visit: Visit) -> Response:
    """Show all brokers with their roles and rates."""
    return visit.page("cluster.html", **await _map(visit))


async def figures(visit: Visit) -> Response:
    """Return the part of the overview that the browser refreshes."""
    return visit.fragment("cluster_figures.html", **await _map(visit))


async def _map(visit: Visit) -> dict[str, Any]:
    brokers = [ShownBroker(row) for row in await visit.view.brokers()]
    clusters: dict[str, dict[str, list[ShownBroker]]] = {}
    for broker in brokers:
        clusters.setdefault(broker.row.cluster, {}).setdefault(broker.row.broker_name, []).append(broker)
    bad = [broker for broker in brokers if not broker.good]
    rates = [broker for broker in brokers if broker.row.broker_id == 0]
    return {
        "clusters": clusters,
        "total": len(brokers),
        "bad": bad,
        "ending": soon_ending(brokers, visit.templates.filters["ending_days"]),
        "dead_letters": await visit.view.dead_letters() if brokers else 0,
        "put_rate": sum(broker.put_rate or 0.0 for broker in rates),
        "get_rate": sum(broker.get_rate or 0.0 for broker in brokers),
        "put_today": sum(broker.put_today or 0 for broker in rates),
        "get_today": sum(broker.get_today or 0 for broker in brokers),
    }


async def broker(visit: Visit) -> Response:
    """Show a broker, its replicas and its runtime statistics."""
    address = visit.query.needed("address", "the address of the broker")
    found = [each for each in await visit.view.brokers() if each.address == address]
    if not found:
        raise missing(f"broker at {address}")
    row = ShownBroker(found[0])
    replicas: list[ReplicaRow] = []
    if row.row.broker_id == 0 and row.row.serves:
        try:
            told = await visit.view.cached.get("replicas", visit.view.admin.replicas)
            replicas = [each for each in told if each.broker_name == row.row.broker_name and not each.error]
        except BolideError:
            replicas = []
    return visit.page("broker.html", broker=row, replicas=replicas, runtime=sorted(row.row.runtime.items()))


async def stop_writes(visit: Visit) -> Response:
    """Remove the write permission of a broker at the name servers, so that producers avoid it."""
    name = visit.form.needed("broker", "the name of the broker")
    changed = await visit.view.admin.wipe_write_permission(name)
    return visit.done(f"producers avoid {name}: {_topics(changed)} changed", link("/"))


async def allow_writes(visit: Visit) -> Response:
    """Restore the write permission of a broker at the name servers."""
    name = visit.form.needed("broker", "the name of the broker")
    changed = await visit.view.admin.add_write_permission(name)
    return visit.done(f"producers use {name} again: {_topics(changed)} changed", link("/"))


def _topics(changed: dict[str, int]) -> str:
    count = max(changed.values(), default=0)
    return f"{count} topic" if count == 1 else f"{count} topics"


async def stores(visit: Visit) -> Response:
    """Show the log and the disk usage of each broker."""
    brokers = [ShownBroker(row) for row in await visit.view.brokers()]
    return visit.page("stores.html", brokers=brokers)


PAGES: Final[Sequence[Page]] = (
    Page("/", cluster),
    Page("/cluster/figures", figures),
    Page("/brokers/show", broker),
    Page("/brokers/stop-writes", stop_writes, change=True),
    Page("/brokers/allow-writes", allow_writes, change=True),
    Page("/stores", stores),
)
