"""The error for a rejected browser request."""

from __future__ import annotations

from bolide.errors import PeerError


class PageRefused(PeerError):
    """The request is rejected: the response is a page with the message and the HTTP status `status`."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
