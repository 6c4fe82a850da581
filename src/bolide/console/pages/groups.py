"""Consumer groups: list them, show progress and members, reset offsets, and create, change and delete groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from bolide.admin import QueueProgress
from bolide.admin.reset_plan import planned_reset
from bolide.client.messages.errors import ResponseError
from bolide.client.messages.start_from import StartFrom
from bolide.console.errors import PageRefused
from bolide.console.forms import Fields
from bolide.console.render import link
from bolide.console.visit import Page, Visit, missing
from bolide.layout.names import FIRST_GROUPS
from bolide.remoting.bodies.groups import SubscriptionGroupConfig

PLACES: Final = ("first", "last", "time")


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in the list. `lag` is in messages, `age` is the age of the oldest pending message in ms. Either is None
    if no broker responded."""

    name: str
    config: SubscriptionGroupConfig
    lag: int | None
    age: int | None
    rate: float | None


async def groups(visit: Visit) -> Response:
    """Show a page of the list of groups."""
    search, sort = visit.query.text("q"), visit.query.chosen("sort", ("name", "lag"), "name")
    known = await visit.view.groups()
    word = search.lower()
    names = [name for name in known if word in name.lower()]
    names.sort(key=lambda name: (name in FIRST_GROUPS, name))
    if sort == "lag":
        lag = await visit.view.lag_of_groups()
        names.sort(key=lambda name: (-lag.get(name, 0), name))
    part = visit.rows(len(names))
    shown = names[part.first : part.last]
    progress = await visit.view.progress_of(shown)
    lagging = [name for name, of_group in progress.items() if of_group is not None and of_group.lag > 0]
    times = await visit.view.lag_times_of(lagging)
    rows = []
    for name in shown:
        of_group = progress[name]
        if of_group is None:
            rows.append(GroupRow(name, known[name], None, None, None))
        else:
            ages = times.get(name, {})
            age = None if ages is None else max(ages.values(), default=0)
            rows.append(GroupRow(name, known[name], of_group.lag, age, of_group.tps))
    return visit.page("groups.html", rows=rows, part=part, search=search, sort=sort)


async def group(visit: Visit) -> Response:
    """Show the progress, members and settings of a group."""
    name = visit.query.needed("group", "the name of the group")
    view = visit.view
    config = (await view.groups()).get(name)
    progress = (await view.progress_of([name]))[name]
    if config is None and (progress is None or not progress.queues):
        raise missing(f"group {name}")
    by_topic: dict[str, list[QueueProgress]] = {}
    for queue in progress.queues if progress is not None else ():
        by_topic.setdefault(queue.queue.topic, []).append(queue)
    ages = await view.lag_times(name) if progress is not None and progress.lag > 0 else {}
    try:
        members = await view.cached.get(("members", name), lambda: view.admin.consumer_connections(name))
    except ResponseError:
        members = None
    different: Mapping[str, Mapping[str, str | None]] = {}
    if members is not None:
        different = await view.different_subscriptions(name)
    return visit.page(
        "group.html",
        name=name,
        config=config,
        progress=progress,
        by_topic=by_topic,
        ages=ages or {},
        members=members,
        different=different,
        dead_letters=await view.dead_letters_of(name),
    )


async def member(visit: Visit) -> Response:
    """Show the state that a member reports."""
    name = visit.query.needed("group", "the name of the group")
    client = visit.query.needed("client", "the id of the member")
    info = await visit.view.admin.consumer_running_info(name, client, stack=True)
    queues = sorted(info.mq_table.items(), key=lambda item: item[0])
    return visit.page("member.html", name=name, client=client, info=info, queues=queues)


# -- offsets


async def plan(visit: Visit) -> Response:
    """Show the result of a reset before it is made."""
    name, topic = visit.query.needed("group", "the name of the group"), visit.query.needed("topic", "the topic")
    to = _place(visit.query)
    if name not in await visit.view.groups():
        raise missing(f"group {name}")
    moves = await planned_reset(visit.view.admin, name, topic, to)
    return visit.page(
        "reset.html",
        name=name,
        topic=topic,
        place=to if isinstance(to, str) else "time",
        moment=None if isinstance(to, str) else to,
        moves=moves,
        skipped=sum(move.skipped for move in moves),
        repeated=sum(move.repeated for move in moves),
    )


def _place(fields: Fields) -> StartFrom:
    place = fields.chosen("to", PLACES, "first")
    if place != "time":
        return "first" if place == "first" else "last"
    moment = fields.moment("time")
    if moment is None:
        raise PageRefused("the time is missing: enter the time to reset to")
    return moment


async def reset(visit: Visit) -> Response:
    """Reset the offsets of a group in a topic."""
    name, topic = visit.form.needed("group", "the name of the group"), visit.form.needed("topic", "the topic")
    moved = await visit.view.admin.reset_offset(name, topic, _place(visit.form))
    text = f"the offsets of {name} in {topic} are reset: {len(moved)} queues"
    return visit.done(text, link("/groups/show", group=name))


# -- settings


async def create(visit: Visit) -> Response:
    """Create a group."""
    name = visit.form.needed("group", "the name of the group")
    if name in await visit.view.groups():
        raise PageRefused(f"group {name} already exists: change it on its page", 409)
    return await _put(visit, name, "created")


async def change(visit: Visit) -> Response:
    """Change the settings of a group."""
    name = visit.form.needed("group", "the name of the group")
    if name not in await visit.view.groups():
        raise missing(f"group {name}")
    return await _put(visit, name, "changed")


async def _put(visit: Visit, name: str, done: str) -> Response:
    form = visit.form
    brokers = await visit.view.admin.create_group(
        name,
        retry_max_times=form.maybe_number("retry_max_times", least=-1),
        retry_queues=form.maybe_number("retry_queues"),
        consume_enable=form.on("consume_enable"),
        broadcast_enable=form.on("broadcast_enable"),
        orderly=form.on("orderly"),
    )
    return visit.done(f"group {name} is {done} on {', '.join(brokers)}", link("/groups/show", group=name))


async def delete(visit: Visit) -> Response:
    """Delete a group if its name was typed."""
    name = visit.form.needed("group", "the name of the group")
    if visit.form.text("typed") != name:
        raise PageRefused("the typed name is not the name of the group, so it was not deleted")
    brokers = await visit.view.admin.delete_group(name, remove_offset=visit.form.on("remove_offset"))
    return visit.done(f"group {name} is deleted on {', '.join(brokers)}", "/groups")


PAGES: Final[Sequence[Page]] = (
    Page("/groups", groups),
    Page("/groups/show", group),
    Page("/groups/member", member),
    Page("/groups/plan", plan),
    Page("/groups/reset", reset, change=True),
    Page("/groups/create", create, change=True),
    Page("/groups/change", change, change=True),
    Page("/groups/delete", delete, change=True),
)
