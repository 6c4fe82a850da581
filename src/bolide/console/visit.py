"""One request of a browser: who asks, what was typed, and how it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from bolide.console.cluster import ClusterView
from bolide.console.errors import PageRefused
from bolide.console.forms import Fields
from bolide.console.sessions import COOKIE, Notice, Sessions
from bolide.console.topic_schemas import TopicSchemas
from bolide.errors import BolideError
from bolide.version import VERSION

ROWS: Final = 50
"""Rows of a page of a list."""


@dataclass(frozen=True, slots=True)
class Visit:
    """`user` is "" where nobody logs in. `form` has no fields unless the page changes something."""

    request: Request
    templates: Environment
    sessions: Sessions
    browser: str
    view: ClusterView
    user: str
    may_write: bool
    logs_in: bool
    query: Fields
    form: Fields
    name_servers: str
    schemas: TopicSchemas

    @property
    def here(self) -> str:
        """The address of this page, without the host: what a form comes back to."""
        query = self.request.url.query
        return self.request.url.path + (f"?{query}" if query else "")

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A whole page."""
        text = self.templates.get_template(template).render(
            here=self.here,
            path=self.request.url.path,
            token=self.sessions.token(self.browser),
            user=self.user,
            may_write=self.may_write,
            logs_in=self.logs_in,
            notices=self.sessions.told(self.browser),
            name_servers=self.name_servers,
            version=VERSION,
            **values,
        )
        return HTMLResponse(text, status)

    def fragment(self, template: str, **values: Any) -> Response:
        """A part of a page, which the script of the page asks for from time to time."""
        return HTMLResponse(self.templates.get_template(template).render(**values))

    def done(self, text: str, path: str) -> Response:
        """A change was made: show `path`, with a notice."""
        return self._shown(path, Notice(text))

    def failed(self, error: BolideError) -> Response:
        """A change was not made: back to the page of the form, with the reason."""
        return self._shown(local_path(self.form.text("back")), Notice(str(error), bad=True))

    def _shown(self, path: str, notice: Notice) -> Response:
        self.view.cached.forget()
        self.sessions.tell(self.browser, notice)
        return RedirectResponse(path, 303)

    def rows(self, total: int) -> Slice:
        """Which rows of a list this page shows, as its field `page` says."""
        pages = max((total + ROWS - 1) // ROWS, 1)
        number = min(self.query.number("page", 1, least=1), pages)
        return Slice(number, pages, (number - 1) * ROWS, min(number * ROWS, total), total)


@dataclass(frozen=True, slots=True)
class Slice:
    """Page `number` of `pages`: rows from `first` until before `last` of `total`."""

    number: int
    pages: int
    first: int
    last: int
    total: int


Handler = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Page:
    """An address and what answers it. `change`: it is a form that changes something, by POST. `open`: nobody has to
    have logged in for it."""

    path: str
    handler: Handler
    change: bool = False
    open: bool = False


def give_cookie(request: Request, response: Response, browser: str) -> None:
    """Let the browser keep its id: not for scripts, not for forms that other sites send."""
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, browser, path="/", httponly=True, samesite="lax", secure=secure)


def local_path(text: str) -> str:
    """An address of this console as a browser will take it; "/" for any other."""
    parts = urlsplit(text)
    if not text.startswith("/") or text.startswith(("//", "/\\")) or parts.scheme or parts.netloc:
        return "/"
    return quote(text, safe="/?&=%+-._~:@,;*")


def missing(what: str) -> PageRefused:
    """For a page of something that is not there."""
    return PageRefused(f"there is no {what}", 404)
