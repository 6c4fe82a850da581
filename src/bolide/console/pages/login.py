"""Logging in and out, where the cluster asks who somebody is."""

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
    """The pages. `view_of` makes a view for a name and a secret."""

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
        counted = (f"user {name[:100]}", f"address {address_of(visit)}")
        if not sessions.may_try(*counted):
            raise PageRefused("too many wrong passwords: try again in a few minutes", 429)
        if not secret:
            return visit.page("login.html", status=400, next=onward, name=name, wrong="the password is missing")
        view = await view_of(name, secret)
        try:
            may_write = await log_in(view, name)
        except WrongPassword as error:
            await view.close()
            sessions.failed(*counted)
            return visit.page("login.html", status=403, next=onward, name=name, wrong=str(error))
        except BaseException:
            await view.close()
            raise
        await sessions.end(visit.browser)
        response = RedirectResponse(onward, 303)  # a new id: one that somebody knew before is worth nothing
        give_cookie(visit.request, response, await sessions.begin(name, may_write, view))
        return response

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
    """The address of the browser."""
    return visit.request.client.host if visit.request.client is not None else ""
