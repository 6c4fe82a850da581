"""Contexts: named clusters with addresses and credentials, in one private file below the user's configuration folder.

A command uses the name servers of --namesrv or --context, else of the environment, else of the current context, else of
this host. The credentials of a context sign only requests to its cluster.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from bolide.cli.terminal.secret import check_private
from bolide.client.instance.environment_credentials import ACCESS_KEY, SECRET_KEY
from bolide.client.instance.name_servers import DOMAIN, ENVIRONMENT
from bolide.errors import ArgumentError, ConfigError
from bolide.world.home import expanded

LONGEST: Final = 1 << 20
"""Maximum size of the file in bytes."""


class Context(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """A cluster: its name servers, and the user and password that sign requests."""

    namesrv: str
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Context({self.namesrv!r}, {self.user!r})"


class Contexts(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The contents of the file."""

    in_use: str = ""
    contexts: dict[str, Context] = {}

    def named(self, name: str) -> Context:
        """Return a context. Raises `ArgumentError` if it does not exist."""
        if name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise ArgumentError(f"there is no context {name}; known contexts: {known}", "context")
        return self.contexts[name]


def place() -> Path:
    """Return the path of the file."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(home) if os.path.isabs(home) else expanded("~/.config")
    return folder / "bolide" / "contexts.json"


def read_contexts() -> Contexts:
    """Return all contexts, which are empty without a file. Raises `ConfigError` if the file is damaged or other users
    may read it."""
    try:
        path = place()
    except ConfigError:  # a user without a home folder has no contexts
        return Contexts()
    try:
        check_private(path)
        with path.open("rb") as opened:
            data = opened.read(LONGEST + 1)
    except FileNotFoundError:
        return Contexts()
    if len(data) > LONGEST:
        raise ConfigError(f"{path} has more than {LONGEST} bytes: it is not a file of contexts")
    try:
        return msgspec.json.decode(data, type=Contexts)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not a file of contexts: {error}") from None


def write_contexts(contexts: Contexts) -> None:
    """Replace the file atomically. Only its owner can ever read it."""
    path = place()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        fresh.unlink()
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as opened:
        opened.write(msgspec.json.format(msgspec.json.encode(contexts, order="sorted"), indent=2) + b"\n")
        opened.flush()
        os.fsync(handle)
    os.replace(fresh, path)


def named_by_environment() -> str:
    """Return the environment variable that specifies the name servers, or "" if there is none."""
    return next((each for each in (*ENVIRONMENT, DOMAIN) if os.environ.get(each, "").strip()), "")


def addresses_in_force(given: str, context: str) -> tuple[str, Callable[[], None]]:
    """Return the addresses to use and a function that undoes this call. "" means the environment or the default.

    Sets the credentials of a context as variables of this process, which clients and Spark's workers read.
    Raises `ArgumentError` if both arguments are given or the context does not exist.
    """
    if given and context:
        raise ArgumentError("--namesrv and --context exclude each other: write one", "context")
    if given or (not context and named_by_environment()):
        return given, _nothing
    contexts = read_contexts()
    name = context or contexts.in_use
    if not name:
        return "", _nothing
    chosen = contexts.named(name)
    if not chosen.user or (not context and os.environ.get(ACCESS_KEY)):
        return chosen.namesrv, _nothing
    before = {key: os.environ.get(key) for key in (ACCESS_KEY, SECRET_KEY)}
    os.environ.update({ACCESS_KEY: chosen.user, SECRET_KEY: chosen.password})

    def undo() -> None:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value

    return chosen.namesrv, undo


def _nothing() -> None:
    pass
