"""Extension fields of requests between the brokers of a set (ExchangeHAInfoRequestHeader.java)."""

from __future__ import annotations

from bolide.remoting.headers.base import Header, Int64


class ExchangeHAInfoRequestHeader(Header, rename="camel"):
    """Request 906 EXCHANGE_BROKER_HA_INFO: a master sends it to its slave; without a value it queries a master."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExchangeHAInfoResponseHeader(Header, rename="camel"):
    """Response to 906 EXCHANGE_BROKER_HA_INFO: where the master is, from a master only."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ResetMasterFlushOffsetHeader(Header, rename="camel"):
    """Request 908 RESET_MASTER_FLUSH_OFFSET: the master's flushed offset as known to a slave."""

    master_flush_offset: Int64
