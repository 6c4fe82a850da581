"""Users and policies of access control: show, create, change and delete them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from bolide.access.policies import AclInfo
from bolide.access.users import UserInfo
from bolide.client.messages.errors import ResponseError
from bolide.console.errors import PageRefused
from bolide.console.visit import Page, Visit

ACTIONS: Final = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
TYPES: Final = ("Normal", "Super")
STATES: Final = ("enable", "disable")


async def access(visit: Visit) -> Response:
    """Show all users and policies."""
    users: dict[str, UserInfo] = {}
    policies: dict[str, AclInfo] = {}
    problem = ""
    if visit.logs_in:
        try:
            users = await visit.view.cached.get("users", visit.view.admin.users)
            policies = await visit.view.cached.get("policies", visit.view.admin.policies)
        except ResponseError as error:
            problem = error.remark or str(error)
    entries = [
        (name, policy.policy_type or "", entry)
        for name, info in policies.items()
        for policy in info.policies
        for entry in policy.entries or ()
    ]
    return visit.page(
        "access.html", users=users, entries=entries, problem=problem, actions=ACTIONS, types=TYPES, states=STATES
    )


async def create_user(visit: Visit) -> Response:
    """Create a user."""
    name = visit.form.needed("name", "the name of the user")
    password = visit.form.raw("password")
    if not password:
        raise PageRefused("the password is missing")
    kind = visit.form.chosen("type", TYPES, "Normal")
    brokers = await visit.view.admin.create_user(name, password, user_type=kind)
    return visit.done(f"user {name} is created on {', '.join(brokers)}", "/access")


async def change_user(visit: Visit) -> Response:
    """Change the type, status or password of a user."""
    name = visit.form.needed("name", "the name of the user")
    brokers = await visit.view.admin.update_user(
        name,
        password=visit.form.raw("password") or None,
        user_type=visit.form.chosen("type", TYPES, "") or None,
        user_status=visit.form.chosen("status", STATES, "") or None,
    )
    return visit.done(f"user {name} is changed on {', '.join(brokers)}", "/access")


async def delete_user(visit: Visit) -> Response:
    """Delete a user and all policies of the user."""
    name = visit.form.needed("name", "the name of the user")
    if name == visit.user:
        raise PageRefused("you cannot delete your own user: ask another administrator", 409)
    if visit.form.text("typed") != name:
        raise PageRefused("the typed name is not the name of the user, so it was not deleted")
    brokers = await visit.view.admin.delete_user(name)
    return visit.done(f"user {name} is deleted on {', '.join(brokers)}", "/access")


async def put_policy(visit: Visit) -> Response:
    """Create or replace a user's entry for a resource."""
    form = visit.form
    name, resource = form.needed("name", "the name of the user"), form.needed("resource", "the resource")
    actions = [action for action in ACTIONS if action in form.all("action")]
    if not actions:
        raise PageRefused("no action is selected")
    sources = form.text("sources").replace(",", " ").split()
    allow = form.text("decision") != "Deny"
    await visit.view.admin.put_policy(name, resource, actions, allow=allow, source_ips=sources)
    what = "allowed" if allow else "denied"
    return visit.done(f"{', '.join(actions)} with {resource} is {what} to {name}", "/access")


async def delete_policy(visit: Visit) -> Response:
    """Delete a user's entry for a resource."""
    form = visit.form
    name, resource = form.needed("name", "the name of the user"), form.needed("resource", "the resource")
    await visit.view.admin.delete_policy(name, resource, policy_type=form.text("policy_type") or "Custom")
    return visit.done(f"the entry of {name} for {resource} is deleted", "/access")


PAGES: Final[Sequence[Page]] = (
    Page("/access", access),
    Page("/access/create-user", create_user, change=True),
    Page("/access/change-user", change_user, change=True),
    Page("/access/delete-user", delete_user, change=True),
    Page("/access/put-policy", put_policy, change=True),
    Page("/access/delete-policy", delete_policy, change=True),
)
