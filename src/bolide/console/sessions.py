"""Sessions: a cookie identifies each browser and, if the cluster requires authentication, the logged-in user.

A session contains the clients that sign with its user's secret, so the brokers decide what each user may see and do.
It is held in memory only. It expires after 30 minutes without a request, and always after 12 hours.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from bolide.console.cluster import ClusterView

COOKIE: Final = "bolide_console"
IDLE_S: Final = 30 * 60
WHOLE_S: Final = 12 * 3600
MOST_SESSIONS: Final = 200
MOST_NOTICES: Final = 500
FAILURES: Final = 10
"""Number of wrong passwords from one address within `FAILURES_S` that blocks the address. They are not counted by
user, because anyone could then lock an administrator out."""
FAILURES_S: Final = 300
MOST_COUNTED: Final = 1_000
_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(slots=True)
class Session:
    """A login of a user in one browser. `began` and `seen` are in seconds."""

    user: str
    may_write: bool
    view: ClusterView
    began: float
    seen: float


@dataclass(frozen=True, slots=True)
class Notice:
    """The result of a change, shown on the next page."""

    text: str
    bad: bool = False


@dataclass(slots=True)
class _Failed:
    since: float
    count: int = 0


@dataclass(slots=True)
class Sessions:
    """All sessions of this process. `clock` returns seconds."""

    clock: Callable[[], float]
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _sessions: OrderedDict[str, Session] = field(default_factory=OrderedDict, repr=False)
    _notices: OrderedDict[str, list[Notice]] = field(default_factory=OrderedDict, repr=False)
    _failed: OrderedDict[str, _Failed] = field(default_factory=OrderedDict, repr=False)

    def new_id(self) -> str:
        """Return a new random browser id."""
        return secrets.token_urlsafe(32)

    def token(self, browser: str) -> str:
        """Return the CSRF token of a browser."""
        return hmac.new(self._secret, browser.encode(), "sha256").hexdigest()

    def token_fits(self, browser: str, token: str) -> bool:
        """Return whether `token` is the CSRF token of the browser."""
        return hmac.compare_digest(self.token(browser).encode(), token.encode("utf-8", "replace"))

    async def find(self, browser: str) -> Session | None:
        """Return the session of a browser and restart its idle timeout. Return None if it does not exist or expired."""
        session = self._sessions.get(browser)
        if session is None:
            return None
        now = self.clock()
        if now - session.seen > IDLE_S or now - session.began > WHOLE_S:
            await self.end(browser)
            return None
        session.seen = now
        self._sessions.move_to_end(browser)
        return session

    async def begin(self, user: str, may_write: bool, view: ClusterView) -> str:
        """Create a session and return its new browser id. Ends the least recently used session above the limit."""
        browser, now = self.new_id(), self.clock()
        self._sessions[browser] = Session(user, may_write, view, now, now)
        while len(self._sessions) > MOST_SESSIONS:
            await self.end(next(iter(self._sessions)))
        return browser

    async def end(self, browser: str) -> None:
        """Log out and close the clients. A second call does nothing."""
        session = self._sessions.pop(browser, None)
        if session is not None:
            await session.view.close()

    async def end_all(self) -> None:
        """End all sessions."""
        for browser in list(self._sessions):
            await self.end(browser)

    def tell(self, browser: str, notice: Notice) -> None:
        """Show a notice on the next page of a browser."""
        self._notices.setdefault(browser, []).append(notice)
        while len(self._notices) > MOST_NOTICES:
            self._notices.popitem(last=False)

    def told(self, browser: str) -> list[Notice]:
        """Remove and return the notices for the next page."""
        return self._notices.pop(browser, [])

    # -- wrong passwords

    def begin_try(self, address: str) -> bool:
        """Count a login attempt from an address as wrong, or return False if there were too many wrong passwords.

        Attempts run concurrently, so each counts as wrong until `end_try` is called.
        """
        now = self.clock()
        known = self._failed.get(address)
        if known is None or now - known.since >= FAILURES_S:
            known = self._failed[address] = _Failed(now)
            self._failed.move_to_end(address)
        if known.count >= FAILURES:
            return False
        known.count += 1
        while len(self._failed) > MOST_COUNTED:
            self._failed.popitem(last=False)
        return True

    def end_try(self, address: str) -> None:
        """Stop counting an attempt as wrong, because its password was right or no broker has checked it."""
        known = self._failed.get(address)
        if known is not None and known.count:
            known.count -= 1


def browser_id(cookie: str) -> str:
    """Return the id in a cookie, or "" if it does not have the format of `new_id`."""
    return cookie if _ID.fullmatch(cookie) else ""
