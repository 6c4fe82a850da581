"""What the store and the tables of a slave lack of its master's."""

from __future__ import annotations

from collections.abc import Container

from bolide.node.broker import BrokerNode


def queues_lack(slave: BrokerNode, master: BrokerNode, deleted: Container[str]) -> str:
    """A queue that ends elsewhere; "" for none.

    But for those of topics that were deleted, whose messages a slave shows until it is told, and for queues that end
    before the first file of the slave.
    """
    begin = int(slave.store.log.segments.min_offset)
    for queue in master.store.queues.all_queues():
        nothing = queue.max_offset <= queue.min_offset or int(queue.max_physical_offset) <= begin
        if nothing or queue.topic in deleted:
            continue
        mine = slave.store.queues.get(queue.topic, queue.queue_id)
        end = int(mine.max_offset) if mine is not None else None
        if end != int(queue.max_offset):
            return f"queue {queue.queue_id} of {queue.topic} ends at {end}, the master's at {queue.max_offset}"
    return ""


def tables_lack(slave: BrokerNode, master: BrokerNode, groups: list[str], more_topics: bool = False) -> str:
    """A topic, a group or an offset of these groups that is not as the master has it; "" for none. With `more_topics` a
    slave may have topics that its master was never told of.
    """
    mine, theirs = (_tables_of(node, groups) for node in (slave, master))
    for kind, table in theirs.items():
        stays = kind == "offsets" or (kind == "topic" and more_topics)  # what only the slave was told
        known = set[object]() if stays else mine[kind].keys()
        for key in sorted(table.keys() | known, key=str):
            if table.get(key) != mine[kind].get(key):
                return f"{kind} {key} is {mine[kind].get(key)}, the master's {table.get(key)}"
    return ""


def settled(node: BrokerNode) -> int:
    """Below this a broker keeps its log."""
    log = node.store.log
    return int(log.flushed_offset if node.store.options.sync_flush else log.written_offset)


def _tables_of(node: BrokerNode, groups: list[str]) -> dict[str, dict[object, object]]:
    """Its topics and groups, and what these groups have committed."""
    offsets = node.parts.offsets
    return {
        "topic": {name: one.to_json() for name, one in node.parts.topics.table.items()},
        "group": {name: one.to_json() for name, one in node.parts.groups.table.items()},
        "offsets": {
            (group, topic): dict(offsets.queues(group, topic)) for group in groups for topic in offsets.topics_of(group)
        },
    }
