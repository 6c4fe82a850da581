"""A browser request with its user and fields, and the responses that pages can return."""

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
"""Number of list rows on a page."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request. `user` is "" if no user is logged in. `form` is empty unless the page makes a change."""

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
        """Path and query of this page. A failed form returns to it."""
        query = self.request.url.query
        return self.request.url.path + (f"?{query}" if query else "")

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Return a complete page."""
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
        """Return a part of a page. The script of the page fetches it periodically."""
        return HTMLResponse(self.templates.get_template(template).render(**values))

    def done(self, text: str, path: str) -> Response:
        """Redirect to `path` with a notice after a successful change."""
        return self._shown(path, Notice(text))

    def failed(self, error: BolideError) -> Response:
        """Redirect to the page of the form with the error after a failed change."""
        return self._shown(local_path(self.form.text("back")), Notice(str(error), bad=True))

    def _shown(self, path: str, notice: Notice) -> Response:
        self.view.cached.forget()
        self.sessions.tell(self.browser, notice)
        return RedirectResponse(path, 303)

    def rows(self, total: int) -> Slice:
        """Return the range of the `total` list rows to show, according to the query field `page`."""
        pages = max((total + ROWS - 1) // ROWS, 1)
        number = min(self.query.number("page", 1, least=1), pages)
        return Slice(number, pages, (number - 1) * ROWS, min(number * ROWS, total), total)


@dataclass(frozen=True, slots=True)
class Slice:
    """Page `number` of `pages`: the rows from `first` to `last`, exclusive, of `total`."""

    number: int
    pages: int
    first: int
    last: int
    total: int


Handler = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Page:
    """A path and its handler. With `change`, the page is a form that makes a change, by POST. With `open`, the page
    does not require a login."""

    path: str
    handler: Handler
    change: bool = False
    open: bool = False


def give_cookie(request: Request, response: Response, browser: str) -> None:
    """Set the cookie with the browser's id. Scripts cannot read it, and browsers do not send it with forms of other
    sites."""
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, browser, path="/", httponly=True, samesite="lax", secure=secure)


def local_path(text: str) -> str:
    """Return `text` quoted if it is a path of this console, otherwise "/"."""
    parts = urlsplit(text)
    if not text.startswith("/") or text.startswith(("//", "/\\")) or parts.scheme or parts.netloc:
        return "/"
    return quote(text, safe="/?&=%+-._~:@,;*")


def missing(what: str) -> PageRefused:
    """Return the error 404 for something that does not exist."""
    return PageRefused(f"there is no {what}", 404)
