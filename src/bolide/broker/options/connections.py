"""Settings of a broker's connections."""

from __future__ import annotations

from typing import Annotated

from bolide.declaration import OURS, Bytes, DeclaredOptions, PositiveBytes, PositiveMs
from bolide.remoting.listening import (
    CONNECTIONS,
    MaxConnections,
    MaxFrameSeconds,
    MaxIdleSeconds,
    MaxUnfinishedBytes,
    TrustedProxies,
)


class BrokerConnectionOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Limits of connections, frames and unread bytes."""

    max_connections: MaxConnections = 20_000
    server_channel_max_idle_time_seconds: MaxIdleSeconds = 120
    channel_expired_timeout: Annotated[
        PositiveMs, CONNECTIONS("Time without a heartbeat after which a client is removed.")
    ] = 120_000
    max_frame_length: Annotated[
        PositiveBytes, CONNECTIONS("Longest request; a longer one closes its connection.", java=OURS)
    ] = 16 * 1024 * 1024
    max_unfinished_bytes: MaxUnfinishedBytes = 256 * 1024 * 1024
    max_frame_seconds: MaxFrameSeconds = 120
    trusted_proxies: TrustedProxies = ""
    client_write_buffer_high: Annotated[
        Bytes, CONNECTIONS("Unread bytes of a peer above which its requests are not read.", java=OURS)
    ] = 4 * 1024 * 1024
    client_write_buffer_limit: Annotated[
        Bytes, CONNECTIONS("Unread bytes of a peer above which it is disconnected.", java=OURS)
    ] = 128 * 1024 * 1024
    client_write_buffer_total: Annotated[
        Bytes,
        CONNECTIONS("Unread bytes of all clients above which pulls fail with FLOW_CONTROL.", live=True, java=OURS),
    ] = 1024 * 1024 * 1024
