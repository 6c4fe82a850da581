"""The progress of a long job, as jobs report it and the command line shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobProgress:
    """The progress of a stage: `done` of `total`, in `unit`, and the seconds since its start."""

    stage: str
    done: int
    total: int
    seconds: float
    unit: str = "files"
    """Unit of `done` and `total`: `bytes`, or another noun to show."""

    @property
    def rate(self) -> float:
        """Rate of `done` per second."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float:
        """Remaining seconds at this rate, or 0 if they are unknown."""
        return (self.total - self.done) / self.rate if self.rate > 0 else 0.0
