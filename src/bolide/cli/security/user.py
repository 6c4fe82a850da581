"""`bolide user`: the users of access control (ACL 2 of RocketMQ 5)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bolide.cli.contexts.admin_call import call
from bolide.cli.contexts.options import Cluster, Namesrv
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.secret import FromFile, FromStdin, given_secret
from bolide.cli.terminal.watch import watched
from bolide.errors import ArgumentError

if TYPE_CHECKING:
    from bolide.access.users import UserInfo
    from bolide.admin.client import Admin

app = typer.Typer()

Name = typer.Argument(..., help="User name, which is the access key.")
COLUMNS = ("User", "Type", "Status")


@app.command("list")
@watched
def list_users(namesrv: str = Namesrv, cluster: str | None = Cluster, as_json: bool = JsonFlag) -> None:
    """List users, without their passwords."""
    with boundary():
        users = call(namesrv, lambda admin: admin.users(cluster=cluster))
        output.table("Users", COLUMNS, [_row(name, user) for name, user in users.items()], as_json)


@app.command()
@watched
def show(name: str = Name, namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """Show a user, without the password; policy show lists the user's policies."""
    with boundary():
        user = call(namesrv, lambda admin: known(admin, name))
        shown = dict(zip(("user", "type", "status"), _row(name, user), strict=True))
        output.pairs(f"User {name}", shown, as_json)


@app.command()
def create(
    name: str = Name,
    namesrv: str = Namesrv,
    superuser: bool = typer.Option(False, "--super", help="May do everything, without a policy."),
    password_stdin: bool = FromStdin,
    password_file: Path | None = FromFile,
    cluster: str | None = Cluster,
) -> None:
    """Create a user on every master; prompts for the password unless an option specifies its source."""
    with boundary():
        password = given_secret("password", password_stdin, password_file)
        kind = "Super" if superuser else "Normal"
        names = call(namesrv, lambda admin: admin.create_user(name, password, user_type=kind, cluster=cluster))
        output.note(f"user {name} ({kind}) is created on {', '.join(names)}")


@app.command()
def change(
    name: str = Name,
    namesrv: str = Namesrv,
    password: bool = typer.Option(False, "--password", help="Prompt for a new password."),
    password_stdin: bool = FromStdin,
    password_file: Path | None = FromFile,
    superuser: bool | None = typer.Option(None, "--super/--normal", help="Whether the user is a superuser."),
    disable: bool | None = typer.Option(None, "--disable/--enable", help="Reject or accept the user's signatures."),
    cluster: str | None = Cluster,
) -> None:
    """Change the given parts of a user: password, type or status."""
    with boundary():
        new_password = password or password_stdin or password_file is not None
        if not new_password and superuser is None and disable is None:
            raise ArgumentError("nothing to change: give --password, --super, --normal, --disable or --enable")
        secret = given_secret("password", password_stdin, password_file) if new_password else None

        async def ask(admin: Admin) -> list[str]:
            await known(admin, name)
            return await admin.update_user(
                name,
                password=secret,
                user_type=None if superuser is None else "Super" if superuser else "Normal",
                user_status=None if disable is None else "disable" if disable else "enable",
                cluster=cluster,
            )

        output.note(f"user {name} is changed on {', '.join(call(namesrv, ask))}")


@app.command()
def delete(
    name: str = Name,
    namesrv: str = Namesrv,
    cluster: str | None = Cluster,
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Delete a user and all policies of that user."""
    if not yes:
        typer.confirm(f"Delete user {name} and all policies of that user?", abort=True)
    with boundary():

        async def ask(admin: Admin) -> list[str]:
            await known(admin, name)
            return await admin.delete_user(name, cluster=cluster)

        output.note(f"user {name} is deleted from {', '.join(call(namesrv, ask))}")


async def known(admin: Admin, name: str) -> UserInfo:
    """Return the user, or end the program with an error if the user does not exist."""
    user = await admin.user(name)
    if user is None:
        output.fail(f"there is no user {name}: no broker knows it")
    return user


def _row(name: str, user: UserInfo) -> tuple[str, ...]:
    return name, user.user_type or "Normal", user.user_status or "enable"
