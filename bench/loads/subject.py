"""A broker under measurement, and how large the measurements are."""

from dataclasses import dataclass, field

from bench.servers.servers import Server


@dataclass(frozen=True)
class Scale:
    """How long and how large: seconds of a load and what is skipped at its start, messages due, connections.

    `share` is the part of the messages that are stored for pulls, `level` the delay level, `lead` the seconds before
    timer messages are due, beside those that sending them takes. `watch` are the seconds for which latency is measured
    and pulls are held. With `answers`, a load ends after so many, and its time is a limit.
    """

    seconds: float = 2.0
    skip: float = 0.3
    count: int = 200_000
    crowd: int = 5_000
    share: float = 1.0
    level: int = 3
    lead: float = 3.0
    watch: float = 4.0
    answers: int = 0


@dataclass
class Subject:
    """One broker, and what was stored on it and looked into."""

    name: str
    server: Server
    scale: Scale
    java: bool = False
    filled: set[str] = field(default_factory=set)
    checked: set[object] = field(default_factory=set)
    names: int = 0

    def new_name(self, prefix: str) -> str:
        """A topic that no measurement had before."""
        self.names += 1
        return f"{prefix}{self.names}"
