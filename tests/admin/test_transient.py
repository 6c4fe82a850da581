"""Which failures of a request a long operation waits out, and for how long."""

from __future__ import annotations

import pytest

from bolide.admin.transient import is_transient, repeated
from bolide.client import ResponseError
from bolide.errors import ArgumentError, BolideError, ConnectionLost, RequestTimeout
from bolide.remoting import codes

BUSY = ResponseError("busy", codes.SYSTEM_BUSY)
REJECTED = ResponseError("no right", codes.NO_PERMISSION)
LOST = ConnectionLost("lost")


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (BUSY, True),
        (ResponseError("not the leader", codes.CONTROLLER_NOT_LEADER), True),
        (LOST, True),
        (RequestTimeout("late"), True),
        (REJECTED, False),
        (ResponseError("unknown", codes.REQUEST_CODE_NOT_SUPPORTED), False),
        (ArgumentError("wrong"), False),
    ],
    ids=str,
)
def test_failure_is_transient_if_the_sender_cannot_end_it(error: BolideError, transient: bool) -> None:
    assert is_transient(error) is transient


class Failing:
    """A request that fails with these errors before it succeeds."""

    def __init__(self, *errors: BolideError) -> None:
        self.errors = list(errors)

    async def ask(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "done"


async def test_change_is_repeated_while_its_server_is_away_or_busy() -> None:
    failing = Failing(BUSY, LOST)
    assert await repeated(failing.ask, 60) == "done"


@pytest.mark.parametrize("errors", [[BUSY, BUSY], [LOST, LOST]], ids=str)
async def test_change_is_not_repeated_after_its_time(errors: list[BolideError]) -> None:
    failing = Failing(*errors)
    with pytest.raises(type(errors[0])):
        await repeated(failing.ask, 0)
    assert failing.errors == errors[1:]


@pytest.mark.parametrize("error", [REJECTED, ResponseError("no such attribute", codes.SYSTEM_ERROR)], ids=str)
async def test_rejected_change_is_not_repeated(error: BolideError) -> None:
    failing = Failing(error)
    with pytest.raises(ResponseError):
        await repeated(failing.ask, 60)
