"""Opens and recovers the store of a broker, and creates the filters that its dispatch uses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from bolide import plugins
from bolide.broker.core.effects import Effects
from bolide.broker.expressions import ExpressionTypes
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.filters import ConsumerFilters
from bolide.broker.tables.pull_filter import FilterCache
from bolide.layout.shape import StoreShape
from bolide.node.loop.persist import ConfigFiles
from bolide.node.machine.machine_use import store_resources
from bolide.node.machine.node_world import NodeWorld
from bolide.store.message_store import MessageStore
from bolide.store.startup.recovery import RecoveryReport
from bolide.world.home import expanded


def store_root(options: BrokerOptions) -> str:
    """Return the folder of the store."""
    return str(expanded(options.place.store_path_root_dir))


def consumer_filters(
    options: BrokerOptions, effects: Effects, now: int, store_time: Callable[[int], int]
) -> ConsumerFilters:
    """Return an empty filter table for the installed expression types. `store_time`: see `ConsumerFilters`."""
    expression_types = ExpressionTypes(
        partial(plugins.find, plugins.EXPRESSION_TYPES),
        options.filters.max_filter_length,
        options.filters.max_filter_operations,
    )
    return ConsumerFilters(options, FilterCache(expression_types), effects, now, store_time)


def loaded_store(
    options: BrokerOptions, world: NodeWorld, filters: ConsumerFilters, now: int, log: logging.Logger
) -> tuple[MessageStore, RecoveryReport]:
    """Return the recovered store and its recovery report. If recovery fails, the lock of the store is released."""
    files, root = world.files, store_root(options)
    store = MessageStore(
        files, root, StoreShape.of(options.shape), options.store, filters.calc_bitmap, store_resources(world)
    )
    if options.shape.enable_calc_filter_bit_map:
        # Recovery dispatches records again, and needs the filters to set their bits.
        tables = {filters.persist_name: filters}
        ConfigFiles(files, root + "/config", tables, asyncio.get_running_loop().call_soon).load()
    report = store.load(now)
    level = logging.WARNING if report.truncated_bytes else logging.INFO
    log.log(level, "store %s: %s", root, report.sentence())
    return store, report
