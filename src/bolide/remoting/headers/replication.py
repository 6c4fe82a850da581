"""Extension fields of requests between the brokers of a set (ExchangeHAInfoRequestHeader.java)."""

from __future__ import annotations

from bolide.remoting.headers.base import Header, Int64


class ExchangeHAInfoRequestHeader(Header, rename="camel"):
    """Request 906 EXCHANGE_BROKER_HA_INFO: a master sends it to its slave. Without values, it is a query of a
    master."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExchangeHAInfoResponseHeader(Header, rename="camel"):
    """Response to 906 EXCHANGE_BROKER_HA_INFO: the master's addresses and flushed offset, which only a master sends."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ResetMasterFlushOffsetHeader(Header, rename="camel"):
    """Request 908 RESET_MASTER_FLUSH_OFFSET: sets the master's flushed offset at a slave."""

    master_flush_offset: Int64
