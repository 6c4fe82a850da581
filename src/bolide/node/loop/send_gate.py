"""Admission control before the handlers: limits sends by the pending replies, as `broker.core.overload` decides, and
pulls by the unread bytes of peers."""

from __future__ import annotations

from typing import final

from bolide.broker.core.overload import Overload
from bolide.broker.options.composed import BrokerOptions
from bolide.node.loop.parked import ParkedReplies
from bolide.remoting.codes import FLOW_CONTROL, SYSTEM_BUSY
from bolide.remoting.command import Command, make_response


@final
class SendGate:
    """`busy`: remark that rejects sends until the next `look`, or "" if sends are accepted."""

    def __init__(self, options: BrokerOptions, parked: ParkedReplies, patience_ms: int) -> None:
        """`patience_ms`: time after which the response of a send is overdue."""
        self.busy: str = ""
        self._overload: Overload = Overload(options)
        self.max_unread: int = options.connections.client_write_buffer_total
        """Maximum unread bytes of all peers before pulls are rejected."""
        self._parked: ParkedReplies = parked
        self._patience_ms: int = patience_ms

    def configure(self, options: BrokerOptions) -> None:
        """Apply new limits."""
        self._overload.configure(options)
        self.max_unread = options.connections.client_write_buffer_total

    def look(self, now: int, lag: int) -> None:
        """Update `busy` before the commands of a read are run. `lag` is how long they waited for the loop, in ms."""
        parked = self._parked
        self.busy = self._overload.remark(parked.count, int(parked.size), self.oldest(now), lag)

    def oldest(self, now: int) -> int:
        """Return how long (ms) the oldest pending send has waited for the log, or 0 if none is pending."""
        parked = self._parked
        return now - parked.next_deadline() + self._patience_ms if parked.count > 0 else 0


def busy(command: Command, remark: str) -> Command:
    """Return the response that asks a client to retry later."""
    return make_response(command, SYSTEM_BUSY, remark)


def later(command: Command, why: str) -> Command:
    """Return the response to a pull that can be neither served nor held now. Java's clients retry after 20 ms, but
    after 3 s for any other error. Java's broker has neither limit and never sends this response."""
    return make_response(command, FLOW_CONTROL, f"[FLOW_CONTROL]{why}: pull again in a moment")
