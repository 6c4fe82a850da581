"""DataVersion: the version of a configuration (DataVersion.java)."""

from __future__ import annotations

from bolide.remoting.bodies.base import Body, Int64


class DataVersion(Body):
    """Equal only when all three are. 4.9 knows no `state_version` and ignores it. timestamp: ms since the epoch."""

    timestamp: Int64 = 0
    counter: Int64 = 0
    state_version: Int64 = 0

    def next(self, now: int, state_version: int | None = None) -> DataVersion:
        """The version after a change made at `now`."""
        state = self.state_version if state_version is None else state_version
        return DataVersion(timestamp=now, counter=self.counter + 1, state_version=state)
