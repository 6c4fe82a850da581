"""What a request of a browser can be refused with."""

from __future__ import annotations

from bolide.errors import PeerError


class PageRefused(PeerError):
    """The request is answered with a page that says why not. `status` is the status of HTTP."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
