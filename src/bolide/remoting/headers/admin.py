"""Broker configuration and counters.

Fields and protocol names are from the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header


class GetBrokerConfigResponseHeader(Header):
    """Response to 26 GET_BROKER_CONFIG."""

    version: str


class ViewBrokerStatsDataRequestHeader(Header, rename="camel"):
    """Request 315 VIEW_BROKER_STATS_DATA."""

    stats_name: str
    stats_key: str


class ExportRocksDBConfigToJsonRequestHeader(Header, rename="camel"):
    """Request 355 EXPORT_ROCKSDB_CONFIG_TO_JSON: `config_type` contains names of tables, each followed by a
    semicolon."""

    config_type: str
