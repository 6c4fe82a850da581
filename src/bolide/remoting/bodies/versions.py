"""DataVersion: the version of a configuration (DataVersion.java)."""

from __future__ import annotations

from bolide.remoting.bodies.base import Body, Int64


class DataVersion(Body):
    """A table's version. Versions are equal only if all three fields are. 4.9 ignores `state_version`. `timestamp` is
    in ms since the epoch."""

    timestamp: Int64 = 0
    counter: Int64 = 0
    state_version: Int64 = 0

    def next(self, now: int, state_version: int | None = None) -> DataVersion:
        """Return the version after a change at `now` (ms since the epoch)."""
        state = self.state_version if state_version is None else state_version
        return DataVersion(timestamp=now, counter=self.counter + 1, state_version=state)
