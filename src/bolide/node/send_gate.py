"""The gate before the handlers of sends: holds what `broker.overload` decides against what is parked right now."""

from __future__ import annotations

from typing import final

from bolide.broker.options import BrokerOptions
from bolide.broker.overload import Overload
from bolide.node.parked import ParkedReplies
from bolide.remoting.codes import SYSTEM_BUSY
from bolide.remoting.command import Command, make_response


@final
class SendGate:
    """`busy` is the remark with which sends are refused until the next look; "" lets them in."""

    def __init__(self, parked: ParkedReplies, flush_timeout_ms: int) -> None:
        self.busy: str = ""
        self.overload: Overload | None = None
        """The limits; None in a daemon that has none."""
        self._parked: ParkedReplies = parked
        self._flush_timeout_ms: int = flush_timeout_ms

    def configure(self, options: BrokerOptions) -> None:
        """Take over other limits."""
        self.overload = Overload(options)

    def look(self, now: int, lag: int) -> None:
        """Before the commands of one read, which waited `lag` ms for their turn of the loop."""
        overload = self.overload
        if overload is None:
            return
        parked = self._parked
        count = parked.count
        age = now - parked.next_deadline() + self._flush_timeout_ms if count > 0 else 0
        self.busy = overload.remark(count, int(parked.size), age, lag)


def busy(command: Command, remark: str) -> Command:
    """The answer that sends a client away for a moment."""
    return make_response(command, SYSTEM_BUSY, remark)
