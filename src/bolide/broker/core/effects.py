"""Side effects of services: requests to other clients, closed connections, files to write, registrations, slow reads.

A service only records them here. The node's executor applies them at the end of the turn. Tests inspect the lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Key
from bolide.layout.broker_message import BrokerMessage
from bolide.remoting.command import Command
from bolide.store.disk.extents import Extent
from bolide.store.disk.jobs import Job

SendAway: TypeAlias = Callable[[BrokerMessage, Callable[[str, int], None]], None]
"""Sends a message to another set, and calls `then(error, now)`."""


@final
class Effects:
    """The queue of effects of one node. All lists are emptied by the executor at the end of each turn."""

    def __init__(self) -> None:
        self.sends: list[tuple[Channel, Command]] = []
        self.closes: list[Channel] = []
        self.persists: set[str] = set()
        self.persisted: int = 0
        """Number of requested table writes. The executor uses it to detect whether a handler requested one."""
        self.registrations: set[str] = set()
        self.loads: list[tuple[list[Extent], Callable[[int], None]]] = []
        self.jobs: list[tuple[Job, Callable[[Job, str], None]]] = []
        self.wakes: list[object] = []
        self.releases: list[Key] = []
        self.aways: list[tuple[BrokerMessage, Callable[[str, int], None]]] = []
        self.pending: bool = False
        self._asked: dict[str, int] = {}
        self._saved: dict[str, int] = {}

    def send(self, channel: Channel, command: Command) -> None:
        """Send a oneway request, or a request whose response is ignored, to a client. Dropped if the client has
        disconnected."""
        self.sends.append((channel, command))
        self.pending = True

    def close(self, channel: Channel) -> None:
        """Close a client's connection. The `channel_closed` hooks of the services run once it is closed."""
        self.closes.append(channel)
        self.pending = True

    def persist(self, name: str) -> None:
        """Write the table of this name (`persist_name`) to config/<name>.json, off the loop."""
        self.persists.add(name)
        self._asked[name] = self._asked.get(name, 0) + 1
        self.persisted += 1
        self.pending = True

    def persist_unsaved(self, name: str) -> None:
        """Write the table again if its file may lack a change. So the response to a repeated request waits for the file
        like the first one."""
        if self._asked.get(name, 0) != self._saved.get(name, 0):
            self.persist(name)

    def changes(self, name: str) -> int:
        """Return how many writes of this table were requested."""
        return self._asked.get(name, 0)

    def saved(self, name: str, changes: int) -> None:
        """Record that the file of this table contains the state after `changes` requests."""
        self._saved[name] = changes

    def register(self, topic_names: list[str]) -> None:
        """Register these topics with every name server immediately. An empty list registers all topics."""
        if topic_names:
            self.registrations.update(topic_names)
        else:
            self.registrations.add("")
        self.pending = True

    def load(self, extents: list[Extent], then: Callable[[int], None]) -> None:
        """Read extents that are not in memory in the pool, then call `then(now)` on the loop. Used by ticks."""
        self.loads.append((extents, then))
        self.pending = True

    def run(self, job: Job, done: Callable[[Job, str], None]) -> None:
        """Run a job of the store (`store.disk.jobs`) in the pool, then call `done(job, error)` on the loop. `error` is
        "" on success."""
        self.jobs.append((job, done))
        self.pending = True

    def send_away(self, message: BrokerMessage, then: Callable[[str, int], None]) -> None:
        """Send a message to another broker set, then call `then(error, now)` on the loop. `error` is "" on success.
        Does not retry."""
        self.aways.append((message, then))
        self.pending = True

    def wake(self, service: object) -> None:
        """Re-evaluate this service's `due`, because the time of its next tick has changed."""
        self.wakes.append(service)
        self.pending = True

    def release(self, key: Key) -> None:
        """Rerun the requests that wait under this key, for example after an offset reset or a change of a route."""
        self.releases.append(key)
        self.pending = True

    def take(self) -> Effects:
        """Remove and return all recorded effects as a new object."""
        taken = Effects()
        taken.sends, self.sends = self.sends, []
        taken.closes, self.closes = self.closes, []
        taken.persists, self.persists = self.persists, set()
        taken.registrations, self.registrations = self.registrations, set()
        taken.loads, self.loads = self.loads, []
        taken.jobs, self.jobs = self.jobs, []
        taken.wakes, self.wakes = self.wakes, []
        taken.releases, self.releases = self.releases, []
        taken.aways, self.aways = self.aways, []
        self.pending = False
        return taken
