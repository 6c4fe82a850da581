"""The console as an ASGI application: authentication, routing to pages, and the headers of every response."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bolide.client.messages.errors import ResponseError, TopicNotFound
from bolide.console.cluster import ClusterView
from bolide.console.errors import PageRefused
from bolide.console.forms import Fields, form_of
from bolide.console.forwarded import Forwarded
from bolide.console.pages import access, brokers, dead_letters, groups, login, messages, settings, topics, waiting
from bolide.console.render import environment, link
from bolide.console.roles import AccessControl
from bolide.console.sessions import COOKIE, Sessions, browser_id
from bolide.console.topic_schemas import TopicSchemas
from bolide.console.visit import Page, Visit, give_cookie
from bolide.errors import ArgumentError, BolideError
from bolide.remoting import codes
from bolide.transport.trusted_proxies import TrustedProxies
from bolide.world.clocks import now_ms

log = logging.getLogger("bolide.console")

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
PAGES: Final[Sequence[Page]] = (
    *brokers.PAGES,
    *topics.PAGES,
    *groups.PAGES,
    *messages.PAGES,
    *dead_letters.PAGES,
    *waiting.PAGES,
    *access.PAGES,
    *settings.PAGES,
)


def _no_certificate() -> None:
    return None


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """Options of a console. `namesrv` has the format of the clients' option. Browsers may use only `host_names`, or any
    name if it is None: this protects a console without users from DNS rebinding. `schemas` decode the bodies of
    messages. `certificate_end` returns the expiry of the console's certificate in ms since 1970, or None without TLS.
    Only `trusted_proxies` may send X-Forwarded-For."""

    namesrv: str
    host_names: frozenset[str] | None = LOOPBACK_NAMES
    schemas: TopicSchemas = field(default_factory=TopicSchemas)
    certificate_end: Callable[[], int | None] = _no_certificate
    trusted_proxies: TrustedProxies = field(default_factory=TrustedProxies)
    clock: Callable[[], float] = time.monotonic
    wall_ms: Callable[[], int] = now_ms


class Console:
    """State that all pages share. Create it on the event loop that serves the pages."""

    def __init__(self, options: ConsoleOptions) -> None:
        self.options = options
        self.sessions = Sessions(options.clock)
        self.access = AccessControl(options.namesrv, options.clock)
        self.templates = environment(options.wall_ms)
        self.templates.globals["certificate_end"] = options.certificate_end
        self._everybody = ClusterView(options.namesrv, options.clock)
        self.name_servers = options.namesrv

    @asynccontextmanager
    async def running(self, app: Starlette) -> AsyncIterator[None]:
        """Lifespan of the application: connect to the cluster, and log all users out at the end."""
        await self.access.start()
        await self._everybody.start()
        try:
            yield
        finally:
            await self.sessions.end_all()
            await self._everybody.close()
            await self.access.close()

    def app(self) -> ASGIApp:
        """Return the ASGI application."""
        routes: list[BaseRoute] = [
            Route(page.path, self._endpoint(page), methods=["POST" if page.change else "GET"])
            for page in (*PAGES, *login.pages(self.sessions, self._view_of))
        ]
        routes.append(Mount("/static", StaticFiles(packages=[("bolide.console", "static")]), name="static"))
        inner = Starlette(routes=routes, lifespan=self.running, exception_handlers={HTTPException: self._no_page})
        return Forwarded(Guarded(inner, self.options.host_names), self.options.trusted_proxies)

    async def _view_of(self, name: str, secret: str) -> ClusterView:
        view = ClusterView(self.options.namesrv, self.options.clock, access_key=name, secret_key=secret)
        await view.start()
        return view

    def _endpoint(self, page: Page) -> Callable[[Request], object]:
        async def endpoint(request: Request) -> Response:
            known = browser_id(request.cookies.get(COOKIE, ""))
            browser = known or self.sessions.new_id()
            visit = None
            try:
                visit = await self._visit(page, request, browser)
                response = await self._answer(page, visit)
            except BolideError as error:
                if visit is not None and page.change and not isinstance(error, PageRefused):
                    response = visit.failed(error)
                else:
                    response = self._told(request, browser, visit, str(error), status_of(error))
            except Exception:
                log.exception("%s %s failed", request.method, request.url.path)
                text = "this page failed: see the log of the console"
                response = self._told(request, browser, visit, text, 500)
            if not known and COOKIE not in response.headers.get("set-cookie", ""):
                give_cookie(request, response, browser)
            return response

        return endpoint

    async def _visit(self, page: Page, request: Request, browser: str) -> Visit:
        logs_in = await self.access.wanted()
        session = await self.sessions.find(browser) if logs_in else None
        view, user, may_write = self._everybody, "", not logs_in
        if session is not None:
            view, user, may_write = session.view, session.user, session.may_write
        form = Fields(())
        if page.change:
            check_origin(request)
            form = await form_of(request)
        return Visit(
            request,
            self.templates,
            self.sessions,
            browser,
            view,
            user,
            may_write,
            logs_in,
            Fields(request.query_params.multi_items()),
            form,
            self.name_servers,
            self.options.schemas,
        )

    async def _answer(self, page: Page, visit: Visit) -> Response:
        if visit.logs_in and not visit.user and not page.open:
            if page.change:
                raise PageRefused("the session has expired: log in and try again", 401)
            return RedirectResponse(link("/login", next=visit.here), 303)
        if page.change:
            if not self.sessions.token_fits(visit.browser, visit.form.text("token")):
                raise PageRefused("the form belongs to another session: go back, reload the page and try again", 403)
            if not visit.may_write and not page.open:
                raise PageRefused(f"{visit.user} may view this cluster but not change it", 403)
        return await page.handler(visit)

    def _told(self, request: Request, browser: str, visit: Visit | None, text: str, status: int) -> Response:
        values = {"title": "Not possible" if status < 500 else "No answer", "text": text}
        if visit is not None and (visit.user or not visit.logs_in):
            return visit.page("error.html", status=status, **values)
        return HTMLResponse(self.templates.get_template("bare_error.html").render(**values), status)

    async def _no_page(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        values = {"title": "Not here", "text": "there is no such page"}
        return HTMLResponse(self.templates.get_template("bare_error.html").render(**values), status)


class Guarded:
    """ASGI middleware: rejects unknown host names with status 421, and adds the security headers to every response."""

    def __init__(self, inner: ASGIApp, host_names: frozenset[str] | None) -> None:
        self._inner = inner
        self._names = host_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        static = str(scope["path"]).startswith("/static/")

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = {**HEADERS, "Cache-Control": "no-cache" if static else "no-store"}
                if scope["scheme"] == "https":
                    more["Strict-Transport-Security"] = "max-age=31536000"
                message["headers"] = [
                    *message.get("headers", ()),
                    *((name.lower().encode(), value.encode()) for name, value in more.items()),
                ]
            await send(message)

        host = Request(scope).headers.get("host", "")
        if self._names is not None and host_name(host) not in self._names:
            refusal = PlainTextResponse("This console does not accept that host name.\n", 421)
            await refusal(scope, receive, with_headers)
            return
        await self._inner(scope, receive, with_headers)


def host_name(host: str) -> str:
    """Return the name in a header Host without port and brackets, or "" if the header is invalid."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def check_origin(request: Request) -> None:
    """Raise `PageRefused` if another site sent the form."""
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if site not in ("same-origin", "none") or (
        origin is not None and urlsplit(origin).netloc != request.headers.get("host", "")
    ):
        raise PageRefused("the form comes from another site", 403)


def status_of(error: BolideError) -> int:
    """Return the HTTP status for an error."""
    if isinstance(error, PageRefused):
        return error.status
    if isinstance(error, TopicNotFound):
        return 404
    if isinstance(error, ArgumentError):
        return 400
    if isinstance(error, ResponseError):
        return 403 if error.code == codes.NO_PERMISSION else 502
    return 503
