"""Who looks: a cookie for each browser, and where the cluster asks for users, who logged in with it.

A session holds the clients that sign with its user's secret, so the brokers decide what each user may see and do. It
lives in memory only, ends after half an hour without a request, and after twelve hours in any case.
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
"""Wrong passwords in `FAILURES_S`, from one address, after which none is tried from there. They are not counted by
user: anybody could then keep an administrator out."""
FAILURES_S: Final = 300
MOST_COUNTED: Final = 1_000
_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(slots=True)
class Session:
    """One user at one browser."""

    user: str
    may_write: bool
    view: ClusterView
    began: float
    seen: float


@dataclass(frozen=True, slots=True)
class Notice:
    """What the page after a change says about it."""

    text: str
    bad: bool = False


@dataclass(slots=True)
class _Failed:
    since: float
    count: int = 0


@dataclass(slots=True)
class Sessions:
    """All sessions of this process. `clock` counts seconds."""

    clock: Callable[[], float]
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _sessions: OrderedDict[str, Session] = field(default_factory=OrderedDict, repr=False)
    _notices: OrderedDict[str, list[Notice]] = field(default_factory=OrderedDict, repr=False)
    _failed: OrderedDict[str, _Failed] = field(default_factory=OrderedDict, repr=False)

    def new_id(self) -> str:
        """An id for a browser that has none."""
        return secrets.token_urlsafe(32)

    def token(self, browser: str) -> str:
        """What every form of this browser carries."""
        return hmac.new(self._secret, browser.encode(), "sha256").hexdigest()

    def token_fits(self, browser: str, token: str) -> bool:
        """Whether a form came from a page that this browser was shown."""
        return hmac.compare_digest(self.token(browser).encode(), token.encode("utf-8", "replace"))

    async def find(self, browser: str) -> Session | None:
        """The session of a browser, which lives longer by this; None when there is none, or none any more."""
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
        """A session under a new id; the longest unused one ends where there are too many."""
        browser, now = self.new_id(), self.clock()
        self._sessions[browser] = Session(user, may_write, view, now, now)
        while len(self._sessions) > MOST_SESSIONS:
            await self.end(next(iter(self._sessions)))
        return browser

    async def end(self, browser: str) -> None:
        """Log out; a second call does nothing."""
        session = self._sessions.pop(browser, None)
        if session is not None:
            await session.view.close()

    async def end_all(self) -> None:
        """Log everybody out."""
        for browser in list(self._sessions):
            await self.end(browser)

    def tell(self, browser: str, notice: Notice) -> None:
        """Show this on the next page of a browser."""
        self._notices.setdefault(browser, []).append(notice)
        while len(self._notices) > MOST_NOTICES:
            self._notices.popitem(last=False)

    def told(self, browser: str) -> list[Notice]:
        """What the next page shows, once."""
        return self._notices.pop(browser, [])

    # -- wrong passwords

    def begin_try(self, address: str) -> bool:
        """Count a password from an address before it is tried, or return False if there were too many wrong ones.

        Tries run side by side, so each counts as wrong until `end_try` says otherwise.
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
        """Take a try back: its password was right, or no broker has checked it."""
        known = self._failed.get(address)
        if known is not None and known.count:
            known.count -= 1


def browser_id(cookie: str) -> str:
    """The id in a cookie; "" for anything that was not made here."""
    return cookie if _ID.fullmatch(cookie) else ""
