"""Recall of a delayed message (5.x).

Fields and protocol names are from the Java header classes of the same names, releases 4.9.7 and 5.5.0.
"""

from __future__ import annotations

from bolide.remoting.headers.base import Header


class RecallMessageRequestHeader(Header, rename="camel"):
    """Request 370 RECALL_MESSAGE."""

    topic: str
    recall_handle: str
    producer_group: str | None = None


class RecallMessageResponseHeader(Header, rename="camel"):
    """Response to 370 RECALL_MESSAGE."""

    msg_id: str
