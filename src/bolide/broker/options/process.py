"""Settings of a broker's pages for monitoring and of its log."""

from __future__ import annotations

from typing import Annotated, Literal

from bolide.declaration import DeclaredOptions, Port
from bolide.remoting.listening import MONITORING, LogFile, LogFileAge, LogFileCount, LogFileSize, LogFormat, LogLevels


class ProcessOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Metrics pages and log records of the process."""

    metrics_exporter_type: Annotated[
        Literal["DISABLE", "PROM"],
        MONITORING("PROM: serve /metrics for Prometheus, /healthz and /readyz. It needs the extra `bolide[server]`."),
    ] = "DISABLE"
    metrics_prom_exporter_host: Annotated[str, MONITORING("Address of the pages; empty: bindAddress.")] = ""
    metrics_prom_exporter_port: Annotated[Port, MONITORING("Port of the pages; 0 picks a free one.")] = 5557
    log_format: LogFormat = "text"
    log_levels: LogLevels = ""
    log_file: LogFile = ""
    log_file_size: LogFileSize = 64 << 20
    log_file_age: LogFileAge = 24
    log_file_count: LogFileCount = 14
