"""`bolide policy`: the policies of users (ACL 2 of RocketMQ 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from bolide.cli.contexts.admin_call import call
from bolide.cli.contexts.options import Cluster, Namesrv
from bolide.cli.security.user import known
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.watch import watched
from bolide.errors import ArgumentError

if TYPE_CHECKING:
    from bolide.access.policies import AclInfo, EntryInfo
    from bolide.admin.client import Admin

app = typer.Typer()

User = typer.Argument(..., help="User name.")
Resource = typer.Argument(
    ..., help="Topic:NAME, Group:NAME or Cluster:NAME; a trailing * matches every name with that prefix; * matches all."
)
ACTIONS = "Pub, Sub, Create, Update, Delete, Get, List or All"
From = typer.Option([], "--from", help="Only from this address or network, such as 10.0.0.0/8; may be repeated.")
COLUMNS = ("User", "Resource", "Decision", "Actions", "From", "Type")


@app.command("list")
@watched
def list_policies(namesrv: str = Namesrv, cluster: str | None = Cluster, as_json: bool = JsonFlag) -> None:
    """List the policies of all users. Actions that no policy allows are denied."""
    with boundary():
        found = call(namesrv, lambda admin: admin.policies(cluster=cluster))
        rows = [row for user, info in found.items() for row in _rows(user, info)]
        output.table("Policies", COLUMNS, rows, as_json)


@app.command()
@watched
def show(user: str = User, namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """Show the policies of a user."""
    with boundary():

        async def ask(admin: Admin) -> AclInfo | None:
            await known(admin, user)
            return (await admin.policies(user=user)).get(user)

        info = call(namesrv, ask)
        rows = [row[1:] for row in _rows(user, info)] if info is not None else []
        output.table(f"Policies of {user}", COLUMNS[1:], rows, as_json)


@app.command()
def create(
    user: str = User,
    resource: str = Resource,
    actions: list[str] = typer.Option([], "--action", "-a", help=f"{ACTIONS}; may be repeated."),
    namesrv: str = Namesrv,
    deny: bool = typer.Option(False, "--deny", help="Deny the actions instead of allowing them."),
    source: list[str] = From,
    cluster: str | None = Cluster,
) -> None:
    """Allow or deny a user actions on a resource; fails if the user already has a policy for it."""
    with boundary():
        if not actions:
            raise ArgumentError(f"no action is given: write --action with {ACTIONS}")

        async def ask(admin: Admin) -> list[str]:
            await known(admin, user)
            if await _entry(admin, user, resource) is not None:
                output.fail(f"{user} has a policy for {resource}: use policy change, or policy delete")
            return await admin.put_policy(user, resource, actions, allow=not deny, source_ips=source, cluster=cluster)

        output.note(f"{user} has a policy for {resource} on {', '.join(call(namesrv, ask))}")


@app.command()
def change(
    user: str = User,
    resource: str = Resource,
    actions: list[str] = typer.Option([], "--action", "-a", help=f"New actions: {ACTIONS}."),
    namesrv: str = Namesrv,
    deny: bool | None = typer.Option(None, "--deny/--allow", help="Whether the policy denies or allows."),
    source: list[str] = From,
    anywhere: bool = typer.Option(False, "--from-anywhere", help="From every address."),
    cluster: str | None = Cluster,
) -> None:
    """Change the given parts of a user's policy for a resource: actions, decision or addresses."""
    with boundary():
        if not actions and deny is None and not source and not anywhere:
            raise ArgumentError("nothing to change: give --action, --deny, --allow, --from or --from-anywhere")
        if source and anywhere:
            raise ArgumentError("--from and --from-anywhere exclude each other: write one")

        async def ask(admin: Admin) -> list[str]:
            await known(admin, user)
            entry = await _entry(admin, user, resource)
            if entry is None:
                output.fail(f"{user} has no policy for {resource}: use policy create")
            return await admin.put_policy(
                user,
                resource,
                actions or entry.actions or [],
                allow=entry.decision == "Allow" if deny is None else not deny,
                source_ips=[] if anywhere else source or entry.source_ips or [],
                cluster=cluster,
            )

        output.note(f"the policy of {user} for {resource} is changed on {', '.join(call(namesrv, ask))}")


@app.command()
def delete(
    user: str = User,
    resource: str = typer.Argument(None, help="The policy's resource; without it all policies of the user."),
    namesrv: str = Namesrv,
    cluster: str | None = Cluster,
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Delete a user's policy for a resource, or all policies of the user."""
    what = f"all policies of {user}" if resource is None else f"the policy of {user} for {resource}"
    if not yes:
        typer.confirm(f"Delete {what}?", abort=True)
    with boundary():

        async def ask(admin: Admin) -> list[str]:
            await known(admin, user)
            if resource is not None and await _entry(admin, user, resource) is None:
                output.fail(f"{user} has no policy for {resource}")
            return await admin.delete_policy(user, resource, cluster=cluster)

        names = call(namesrv, ask)
        output.note(f"{what} {'are' if resource is None else 'is'} deleted from {', '.join(names)}")


async def _entry(admin: Admin, user: str, resource: str) -> EntryInfo | None:
    """Return a user's custom policy for a resource, or None."""
    info = (await admin.policies(user=user)).get(user)
    for policy in info.policies if info is not None else ():
        for entry in policy.entries or ():
            if policy.policy_type in (None, "Custom") and entry.resource == resource:
                return entry
    return None


def _rows(user: str, info: AclInfo) -> list[tuple[object, ...]]:
    return [
        (
            user,
            entry.resource,
            entry.decision,
            " ".join(entry.actions or ()),
            " ".join(entry.source_ips or ()),
            policy.policy_type or "Custom",
        )
        for policy in info.policies
        for entry in policy.entries or ()
    ]
