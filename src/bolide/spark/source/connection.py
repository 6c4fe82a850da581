"""Connection options, which reads, writes and jobs share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bolide.spark.declared import REQUIRED, Option, option, options_in
from bolide.spark.errors import OptionError
from bolide.spark.option_values import addresses, as_it_is, client_name, whole_number
from bolide.spark.source.selection import Selection
from bolide.spark.source.tls_options import Tls

DEFAULT_GROUP: Final = "bolide-spark"
SPEED: Final = "Tasks and speed"
_SIGNED: Final = (
    "sign each request, for brokers with access control; [Security](security.md) lists the rights that a user needs"
)


@dataclass(frozen=True, kw_only=True)
class ClusterAccess:
    """Connection options of a driver or task. Spark ships them to executors."""

    namesrv: tuple[str, ...] = option(
        SPEED, "name servers, `host:port`, separated by commas", addresses, absent=(), shown=REQUIRED
    )
    request_timeout_ms: int = option(SPEED, "timeout of a request", whole_number(100, 600_000), "10000")
    access_key: str = option(SPEED, _SIGNED, as_it_is, absent="", shown="")
    secret_key: str = option(SPEED, _SIGNED, as_it_is, absent="", shown="", hidden=True)
    group: str = option("Streams", "consumer group of the requests", client_name, DEFAULT_GROUP)
    tls: Tls = field(default_factory=Tls)
    selection: Selection = field(default_factory=Selection)
    """The topics and queues to read, or the topic to write."""
    retry_timeout_ms: int = 60_000
    """Time in ms to retry requests to an unresponsive broker before a task or a query fails."""
    discovery_interval_ms: int = 10_000

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics by name; empty if a pattern selects them."""
        return self.selection.topics


CONNECTION: Final[tuple[Option, ...]] = (
    *(one for one in options_in(ClusterAccess) if one.name != "group"),
    *options_in(Tls),
)
"""The options of a connection. A group is an option of a read or a write."""


def check_connection(given: Mapping[str, str]) -> None:
    """Raise `OptionError` if a connection option is missing. Names are in lower case."""
    if not given.get("namesrv"):
        raise OptionError('no name server is given: set option namesrv, e.g. .option("namesrv", "127.0.0.1:9876")')
    if ("accesskey" in given) != ("secretkey" in given):
        raise OptionError("options accessKey and secretKey go together: set both or neither")
