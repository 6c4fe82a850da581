"""An admin object whose next requests fail."""

from __future__ import annotations

from typing import Any

from bolide.errors import BolideError
from bolide.remoting.command import Command
from tests.client.patient import Admin


class FailingAdmin(Admin):
    """Requests with a code in `errors` fail with its errors, one after the other, before the next one is sent."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.errors: dict[int, list[BolideError]] = {}
        self.sent: list[int] = []

    async def ask(self, address: str, code: int, *arguments: Any, **more: Any) -> Command:
        self.fail(code)
        self.sent.append(code)
        return await super().ask(address, code, *arguments, **more)

    async def ask_namesrv(self, code: int, *arguments: Any, **more: Any) -> Command:
        self.fail(code)
        return await super().ask_namesrv(code, *arguments, **more)

    def fail(self, code: int) -> None:
        """Raise the next error of a code, if there is one."""
        if self.errors.get(code):
            raise self.errors[code].pop(0)

    @property
    def pending(self) -> list[BolideError]:
        """The errors that no request has met."""
        return [error for errors in self.errors.values() for error in errors]
