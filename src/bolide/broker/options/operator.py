"""Settings of queries and of administration."""

from __future__ import annotations

from typing import Annotated, Final

from bolide.declaration import DeclaredOptions, PositiveCount, Section

QUERIES: Final = Section("Queries and operation")


class OperatorOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Limits of queries, and the settings that no request changes."""

    default_query_max_num: Annotated[PositiveCount, QUERIES("Messages that a query by unique id returns at most.")] = 32
    max_msgs_num_batch: Annotated[PositiveCount, QUERIES("Messages that any query by key returns at most.")] = 64
    config_black_list: Annotated[
        str,
        QUERIES("Keys, separated by `;`, that UPDATE_BROKER_CONFIG rejects.", java="configBlackList;brokerConfigPath"),
    ] = "configBlackList;brokerConfigPath;rocketmqHome"
