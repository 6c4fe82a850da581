"""Requests about alternative storage engines of RocketMQ (AdminBrokerProcessor.java of 5.5.0).

This broker has one engine for each purpose: tables are JSON files, and timers are a wheel in files. It responds like a
Java broker with these engines, and rejects a change.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.options.composed import BrokerOptions
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.admin import ExportRocksDBConfigToJsonRequestHeader
from bolide.remoting.headers.replication import ResetMasterFlushOffsetHeader
from bolide.remoting.request_access import GET_CLUSTER, SIGNED_UPDATE, UPDATE_CLUSTER
from bolide.remoting.request_routes import AtMaster, Kind, RawRoute, Route

_TABLES: Final = ("topics", "subscriptionGroups", "consumerOffsets")
"""RocksDBConfigToJsonRequestHeader.ConfigType."""
_OF_MASTER: Final = AtMaster(codes.SYSTEM_ERROR, "a slave copies its master's offsets only from its master")


class EngineService(Service):
    """Serves the requests of one broker."""

    def __init__(self, options: BrokerOptions) -> None:
        self._options = options

    def routes(self) -> Routes:
        return [
            Route(
                codes.EXPORT_ROCKSDB_CONFIG_TO_JSON,
                ExportRocksDBConfigToJsonRequestHeader,
                self.on_export,
                Kind.READ,
                access=GET_CLUSTER,
            ),
            Route(
                codes.RESET_MASTER_FLUSH_OFFSET,
                ResetMasterFlushOffsetHeader,
                self.on_reset,
                Kind.READ,
                at_master=_OF_MASTER,
                access=UPDATE_CLUSTER,
            ),
            RawRoute(codes.SWITCH_TIMER_ENGINE, None, self.on_timers, Kind.READ, access=SIGNED_UPDATE),
        ]

    def on_export(
        self, channel: Channel, command: Command, header: ExportRocksDBConfigToJsonRequestHeader, now: int
    ) -> Outcome:
        """EXPORT_ROCKSDB_CONFIG_TO_JSON: the tables are JSON files already."""
        for name in header.config_type.split(";"):
            if name and name.lower() not in map(str.lower, _TABLES):
                return _no(command, codes.SYSTEM_ERROR, f"Unknown config type: {name}: one of {', '.join(_TABLES)}")
        return _yes(command, "export done.")

    def on_reset(self, channel: Channel, command: Command, header: ResetMasterFlushOffsetHeader, now: int) -> Outcome:
        """RESET_MASTER_FLUSH_OFFSET. Ignored, as by RocketMQ's master."""
        return _yes(command, None)

    def on_timers(self, channel: Channel, command: Command, now: int) -> Outcome:
        """SWITCH_TIMER_ENGINE."""
        engine = command.ext().get("E_T")
        if not self._options.delay.timer_wheel_enable:
            return _no(command, codes.INVALID_PARAMETER, "broker timerWheelEnable is false")
        if engine is None:
            return _no(command, codes.INVALID_PARAMETER, "param error, extFields is null")
        if engine == "R":
            return _no(command, codes.INVALID_PARAMETER, "there is no timer engine on RocksDB here")
        if engine != "F":
            return _no(command, codes.INVALID_PARAMETER, "param error")
        return _yes(command, "switch timer engine success")


def _yes(command: Command, remark: str | None) -> Outcome:
    return reply(make_response(command, codes.SUCCESS, remark))


def _no(command: Command, code: int, why: str) -> Outcome:
    return reply(make_response(command, code, why))
