"""The effective settings of a broker or name server, and which of them differ from their defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from bolide.console.declared import rows_of
from bolide.console.errors import PageRefused
from bolide.console.render import link
from bolide.console.visit import Page, Visit, missing


async def settings(visit: Visit) -> Response:
    """Show the settings of a daemon, by default of the first broker."""
    view = visit.view
    brokers = {row.address: row for row in await view.brokers()}
    name_servers = await view.cached.get("name servers", view.admin.namesrv_config)
    wanted = visit.query.text("of") or next(iter(brokers), next(iter(name_servers), ""))
    only = visit.query.chosen("show", ("all", "changed"), "changed")
    search = visit.query.text("q").lower()
    if wanted in brokers:
        told = await view.cached.get(("config", wanted), lambda: view.admin.broker_config(wanted))
        rows = rows_of(told, of_namesrv=False)
    elif wanted in name_servers:
        rows = rows_of(name_servers[wanted], of_namesrv=True)
    else:
        raise missing(f"broker or name server at {wanted}")
    changed = sum(row.changed for row in rows)
    shown = [
        row
        for row in rows
        if (only == "all" or row.changed) and (search in row.key.lower() or search in row.text.lower())
    ]
    return visit.page(
        "settings.html",
        brokers=brokers,
        servers=sorted(name_servers),
        of=wanted,
        is_broker=wanted in brokers,
        show=only,
        search=visit.query.text("q"),
        rows=shown,
        changed=changed,
        total=len(rows),
    )


async def change(visit: Visit) -> Response:
    """Change a live setting of a broker, or of all name servers."""
    of = visit.form.needed("of", "the address of the broker")
    key, value = visit.form.needed("key", "the setting"), visit.form.text("value")
    brokers = {row.address for row in await visit.view.brokers()}
    if of in brokers:
        await visit.view.admin.update_broker_config(of, {key: value})
    elif of in await visit.view.admin.namesrv_config():
        await visit.view.admin.update_namesrv_config({key: value})
    else:
        raise PageRefused(f"there is no broker or name server at {of}", 404)
    return visit.done(f"{key} is {value or 'empty'} at {of}", link("/settings", of=of, show="all", q=key))


PAGES: Final[Sequence[Page]] = (
    Page("/settings", settings),
    Page("/settings/change", change, change=True),
)
