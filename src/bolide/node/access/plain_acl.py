"""Reloads the ACL 1 files of a running broker when they change.

A change is applied when two consecutive checks have read the same content: a file that is being written may be valid up
to some line, and allow requests that its last lines deny. Invalid files are logged once and the accounts are kept, so a
mistake in a file grants no additional access.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from bolide.access.plain_accounts import MOST_FILE_BYTES, MOST_FILES, Accounts, BadAccounts, read_accounts
from bolide.access.plain_gate import PlainGate
from bolide.errors import BolideError, ConfigError
from bolide.node.machine.node_world import NodeWorld

LOOK_S: Final = 1.0
"""Interval between checks of the files, in seconds."""
FILE: Final = "plain_acl.yml"
FOLDER: Final = "acl"
DEEPEST: Final = 8
"""Maximum nesting depth of folders below `FOLDER`."""
Contents = list[tuple[str, bytes]]


class PlainAcl:
    """Reads the files off the loop, and passes their accounts to the authorizer."""

    def __init__(self, world: NodeWorld, folder: str, log: logging.Logger) -> None:
        self._files = world.files
        self._in_thread = world.in_thread
        self._folder = folder.rstrip("/") or "/"
        self._log = log
        self._gate: PlainGate | None = None
        self._taken: Contents = []
        self._seen: Contents = []
        self._said = ""
        self._task: asyncio.Task[None] | None = None

    def first(self) -> Accounts:
        """Return the accounts at startup. Raises `ConfigError` if the files are invalid."""
        try:
            self._taken = self._contents()
            accounts = read_accounts(self._taken)
        except BadAccounts as bad:
            raise ConfigError(f"aclFolder: {bad}") from None
        self._tell(accounts)
        return accounts

    def start(self, gate: PlainGate) -> None:
        """Start periodic checks."""
        self._gate = gate
        self._task = asyncio.create_task(self._keep())

    def stop(self) -> None:
        """Stop periodic checks. Does not wait for a running check."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def look(self) -> None:
        """Check the files now."""
        try:
            found = await self._in_thread(self._contents)
            before, self._seen = self._seen, found
            if found == self._taken:
                self._said = ""
            elif found == before:
                accounts = await self._in_thread(read_accounts, found)
                self._taken, self._said = found, ""
                self._tell(accounts)
                if self._gate is not None:
                    self._gate.accounts = accounts
        except (BadAccounts, BolideError) as error:
            if str(error) != self._said:
                self._said = str(error)
                self._log.error("keeping the old accounts, because the account files are invalid: %s", error)

    def _contents(self) -> Contents:
        """Return the files with their content, in RocketMQ's order. Raises `BadAccounts`."""
        paths: list[str] = []
        self._collect(f"{self._folder}/{FOLDER}", DEEPEST, paths)
        found = []
        for path in (*paths, f"{self._folder}/{FILE}"):
            if self._files.size(path) > MOST_FILE_BYTES:
                raise BadAccounts(f"{path} has more than {MOST_FILE_BYTES} bytes")
            data = self._files.read_file(path)
            if data is None:
                raise BadAccounts(f"{path} does not exist")
            found.append((path, data))
        return found

    def _collect(self, folder: str, depth: int, paths: list[str]) -> None:
        for name in self._files.list_dir(folder):
            path = f"{folder}/{name}"
            if self._files.size(path) < 0:
                if not depth:
                    raise BadAccounts(f"{folder} is a folder too deep")
                self._collect(path, depth - 1, paths)
            elif name.endswith((".yml", ".yaml")):
                paths.append(path)
                if len(paths) > MOST_FILES:
                    raise BadAccounts(f"{self._folder}/{FOLDER} has more than {MOST_FILES} files")

    def _tell(self, accounts: Accounts) -> None:
        self._log.info("%d accounts may sign requests, by the files in %s", len(accounts.by_key), self._folder)
        for key in accounts.twice:
            self._log.warning("two files have an account %s: the first of them counts", key)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()
