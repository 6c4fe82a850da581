"""Login and logout, for clusters that require authentication."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.responses import RedirectResponse, Response

from bolide.console.cluster import ClusterView
from bolide.console.errors import PageRefused
from bolide.console.roles import WrongPassword, log_in
from bolide.console.sessions import Sessions
from bolide.console.visit import Page, Visit, give_cookie, local_path

ViewOf = Callable[[str, str], Awaitable[ClusterView]]


def pages(sessions: Sessions, view_of: ViewOf) -> Sequence[Page]:
    """Return the pages. `view_of` creates a view of the cluster for a name and a secret."""

    async def show(visit: Visit) -> Response:
        onward = local_path(visit.query.text("next", "/"))
        if visit.user or not visit.logs_in:
            return RedirectResponse(onward, 303)
        return visit.page("login.html", next=onward, name="", wrong="")

    async def enter(visit: Visit) -> Response:
        if not visit.logs_in:
            return RedirectResponse("/", 303)
        name, secret = visit.form.needed("name", "the name"), visit.form.raw("password")
        onward = local_path(visit.form.text("next", "/"))
        if not secret:
            return visit.page("login.html", status=400, next=onward, name=name, wrong="the password is missing")
        address = address_of(visit)
        # Count before the first await, so that concurrent attempts cannot exceed the limit.
        if not sessions.begin_try(address):
            raise PageRefused("too many wrong passwords: try again in a few minutes", 429)
        try:
            view, may_write = await logged_in(name, secret)
        except WrongPassword as error:
            return visit.page("login.html", status=403, next=onward, name=name, wrong=str(error))
        except BaseException:
            sessions.end_try(address)
            raise
        sessions.end_try(address)
        await sessions.end(visit.browser)
        response = RedirectResponse(onward, 303)  # a new id, against session fixation
        give_cookie(visit.request, response, await sessions.begin(name, may_write, view))
        return response

    async def logged_in(name: str, secret: str) -> tuple[ClusterView, bool]:
        view = await view_of(name, secret)
        try:
            return view, await log_in(view, name)
        except BaseException:
            await view.close()
            raise

    async def leave(visit: Visit) -> Response:
        await sessions.end(visit.browser)
        response = RedirectResponse("/login", 303)
        give_cookie(visit.request, response, sessions.new_id())
        return response

    return (
        Page("/login", show, open=True),
        Page("/login/enter", enter, change=True, open=True),
        Page("/login/leave", leave, change=True, open=True),
    )


def address_of(visit: Visit) -> str:
    """Return the IP address of the browser, or "" if it is unknown."""
    return visit.request.client.host if visit.request.client is not None else ""
