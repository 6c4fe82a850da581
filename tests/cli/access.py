"""A broker that asks who somebody is, and the command line as its admin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from click.testing import Result

from bolide.testing.broker import Broker
from tests.cli.running import invoke

ADMIN = '{"username":"admin","password":"admin-secret"}'


@dataclass(frozen=True)
class Signed:
    """Runs commands that are signed by a user."""

    broker: Broker
    user: str = "admin"
    secret: str = "admin-secret"

    def _run(self, words: tuple[str, ...], typed: str = "", code: int = 0) -> Result:
        signs = {"BOLIDE_ACCESS_KEY": self.user, "BOLIDE_SECRET_KEY": self.secret}
        done = invoke(*words, "-n", self.broker.namesrv_addr, typed=typed, **signs)
        assert done.exit_code == code, done.output
        return done

    def __call__(self, *words: str, typed: str = "", code: int = 0) -> str:
        """What was said, on both outputs, by a command that ends with this code."""
        return self._run(words, typed, code).output

    def answer(self, *words: str) -> Any:
        """What a command printed as JSON."""
        return json.loads(self._run(words).stdout)

    def rows(self, *words: str) -> Any:
        """The answer of a command in JSON."""
        return self.answer(*words, "--json")


@contextmanager
def guarded() -> Iterator[Signed]:
    """A broker with one user, the admin."""
    with Broker(authentication_enabled=True, authorization_enabled=True, init_authentication_user=ADMIN) as broker:
        yield Signed(broker)
