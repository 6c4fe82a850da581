"""The gate before the handlers: holds sends against what is parked right now, as `broker.core.overload` decides, and
pulls against what peers have left unread."""

from __future__ import annotations

from typing import final

from bolide.broker.core.options import BrokerOptions
from bolide.broker.core.overload import Overload
from bolide.node.loop.parked import ParkedReplies
from bolide.remoting.codes import FLOW_CONTROL, SYSTEM_BUSY
from bolide.remoting.command import Command, make_response


@final
class SendGate:
    """`busy` is the remark with which sends are refused until the next look; "" lets them in."""

    def __init__(self, options: BrokerOptions, parked: ParkedReplies, patience_ms: int) -> None:
        """`patience_ms`: how long each send waits before its answer is late."""
        self.busy: str = ""
        self._overload: Overload = Overload(options)
        self.max_unread: int = options.connections.client_write_buffer_total
        """Bytes that all peers together may leave unread before pulls are sent away."""
        self._parked: ParkedReplies = parked
        self._patience_ms: int = patience_ms

    def configure(self, options: BrokerOptions) -> None:
        """Take over other limits."""
        self._overload.configure(options)
        self.max_unread = options.connections.client_write_buffer_total

    def look(self, now: int, lag: int) -> None:
        """Before the commands of one read, which waited `lag` ms for their turn of the loop."""
        parked = self._parked
        self.busy = self._overload.remark(parked.count, int(parked.size), self.oldest(now), lag)

    def oldest(self, now: int) -> int:
        """How long (ms) the first of the sends that wait for the log has waited; 0 without any."""
        parked = self._parked
        return now - parked.next_deadline() + self._patience_ms if parked.count > 0 else 0


def busy(command: Command, remark: str) -> Command:
    """The answer that sends a client away for a moment."""
    return make_response(command, SYSTEM_BUSY, remark)


def later(command: Command, why: str) -> Command:
    """The answer to a pull that cannot be served or held right now. Java's clients retry after 20 ms, but after 3 s for
    any other refusal; Java's own broker has neither limit and never sends this answer."""
    return make_response(command, FLOW_CONTROL, f"[FLOW_CONTROL]{why}: pull again in a moment")
