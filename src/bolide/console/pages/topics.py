"""Topics: list and show them, and create, change and delete topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from bolide.admin import QueueStats
from bolide.admin.together import each
from bolide.client.messages.errors import ResponseError
from bolide.console.cluster import stored
from bolide.console.errors import PageRefused
from bolide.console.render import link
from bolide.console.visit import Page, Visit, missing
from bolide.layout.permissions import PERM_READ_WRITE
from bolide.remoting.bodies.clients import ProducerInfo
from bolide.remoting.bodies.topics import TopicConfig

KINDS: Final = ("normal", "retry", "dead letters", "system")
PERMISSIONS: Final = {"6": "read and write", "4": "read only", "2": "write only"}


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in the list. `messages` is the number of stored messages, or None if no broker responded. `last` is the
    time of the last message in ms since 1970."""

    name: str
    configs: Mapping[str, TopicConfig]
    messages: int | None = None
    last: int | None = None

    @property
    def queues(self) -> str:
        """Total number of read and write queues of all brokers; one number if both are equal."""
        read = sum(config.read_queue_nums for config in self.configs.values())
        write = sum(config.write_queue_nums for config in self.configs.values())
        return str(read) if read == write else f"{read} read, {write} write"

    @property
    def permission(self) -> str:
        """The permission in words. If brokers differ, all their permissions."""
        words = {PERMISSIONS.get(str(config.perm & PERM_READ_WRITE), "none") for config in self.configs.values()}
        return ", ".join(sorted(words))

    @property
    def ordered(self) -> bool:
        """Whether the topic is ordered at any broker."""
        return any(config.order for config in self.configs.values())


async def topics(visit: Visit) -> Response:
    """Show a page of the list of topics."""
    kind, search = visit.query.chosen("kind", KINDS, "normal"), visit.query.text("q")
    configs = await visit.view.topic_configs()
    kinds = await visit.view.kinds_of_topics()
    counts = {name: sum(of == name for of in kinds.values()) for name in KINDS}
    word = search.lower()
    names = sorted(name for name in configs if kinds.get(name) == kind and word in name.lower())
    part = visit.rows(len(names))
    shown = names[part.first : part.last]
    stats = await visit.view.stats_of(shown)
    rows = [_row(name, configs[name], stats[name]) for name in shown]
    return visit.page("topics.html", rows=rows, part=part, kind=kind, kinds=counts, search=search)


def _row(name: str, configs: Mapping[str, TopicConfig], stats: list[QueueStats] | None) -> TopicRow:
    if stats is None:
        return TopicRow(name, configs)
    messages = stored(stats)
    last = max((queue.last_update for queue in stats), default=0)
    return TopicRow(name, configs, messages, last)


async def topic(visit: Visit) -> Response:
    """Show the queues, groups, producers and settings of a topic."""
    name = visit.query.needed("topic", "the name of the topic")
    view = visit.view
    configs = (await view.topic_configs()).get(name)
    if configs is None:
        raise missing(f"topic {name}")
    stats = (await view.stats_of([name]))[name] or []
    groups = await view.cached.get(("groups of", name), lambda: view.admin.topic_groups(name))
    progress = await view.progress_of(groups)
    behind = {}
    for group in groups:
        of_group = progress[group]
        queues = [] if of_group is None else [queue for queue in of_group.queues if queue.queue.topic == name]
        behind[group] = None if of_group is None else sum(queue.lag for queue in queues)
    ordered = sorted(behind.items(), key=lambda item: (-(item[1] or 0), item[0]))
    producers: dict[str, list[ProducerInfo]] = {}
    try:
        producers = await view.cached.get("producers", view.admin.producers)
    except ResponseError:  # users who may not view the cluster, and brokers before 4.9.3
        producers = {}
    return visit.page(
        "topic.html",
        row=_row(name, configs, stats),
        stats=stats,
        groups=ordered,
        producers=producers,
        permissions=PERMISSIONS,
    )


async def create(visit: Visit) -> Response:
    """Create a topic."""
    name = visit.form.needed("topic", "the name of the topic")
    if name in await visit.view.topic_configs():
        raise PageRefused(f"topic {name} already exists: change it on its page", 409)
    brokers = await visit.view.admin.create_topic(
        name,
        queues=visit.form.number("queues", 8),
        perm=int(visit.form.chosen("perm", PERMISSIONS, "6")),
        order=visit.form.on("order") or None,
        broker=visit.form.text("broker") or None,
    )
    return visit.done(f"topic {name} is created on {', '.join(brokers)}", link("/topics/show", topic=name))


async def change(visit: Visit) -> Response:
    """Change the settings of a topic on every broker that has it."""
    name = visit.form.needed("topic", "the name of the topic")
    configs = (await visit.view.topic_configs()).get(name)
    if configs is None:
        raise missing(f"topic {name}")
    read = visit.form.maybe_number("read_queues")
    write = visit.form.maybe_number("write_queues")
    perm = visit.form.text("perm")
    order = visit.form.on("order")

    async def on(broker: str) -> object:
        was = configs[broker]
        return await visit.view.admin.create_topic(
            name,
            read_queues=read,
            write_queues=write,
            perm=int(perm) if perm in PERMISSIONS else None,
            order=order if order != was.order else None,
            broker=broker,
            wait=False,
        )

    await each(list(configs), on, at_once=1)
    return visit.done(f"topic {name} is changed on {', '.join(configs)}", link("/topics/show", topic=name))


async def delete(visit: Visit) -> Response:
    """Delete a topic if its name was typed."""
    name = visit.form.needed("topic", "the name of the topic")
    if visit.form.text("typed") != name:
        raise PageRefused("the typed name is not the name of the topic, so it was not deleted")
    brokers = await visit.view.admin.delete_topic(name)
    return visit.done(f"topic {name} is deleted on {', '.join(brokers)}", "/topics")


PAGES: Final[Sequence[Page]] = (
    Page("/topics", topics),
    Page("/topics/show", topic),
    Page("/topics/create", create, change=True),
    Page("/topics/change", change, change=True),
    Page("/topics/delete", delete, change=True),
)
