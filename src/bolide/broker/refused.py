"""A request refused by a rule: the response code and one sentence, raised where a return value would be in the way."""

from __future__ import annotations

from typing import Final

from bolide.errors import PeerError
from bolide.remoting.codes import (
    MESSAGE_ILLEGAL,
    SERVICE_NOT_AVAILABLE,
    SLAVE_NOT_AVAILABLE,
    SUCCESS,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
)
from bolide.remoting.request_routes import AtMaster

_A_SLAVE: Final = "[REJECTREQUEST]this broker is a slave: send to its master"
SENDS_AT_MASTER: Final = AtMaster(
    SYSTEM_BUSY,
    _A_SLAVE,
    where_acting=AtMaster(SERVICE_NOT_AVAILABLE, "service not available now: this broker is a slave"),
)
RETRIES_AT_MASTER: Final = AtMaster(
    SYSTEM_BUSY, _A_SLAVE, where_acting=AtMaster(SYSTEM_ERROR, "no master available along with this slave")
)
PULLS_AT_MASTER: Final = AtMaster(
    SYSTEM_BUSY, "[REJECTREQUEST]this broker is a slave that serves no pulls: pull from its master", unless_reads=True
)
TABLES_AT_MASTER: Final = AtMaster(
    SYSTEM_ERROR,
    "Can't modify topic or subscription group from slave broker, please execute it from master broker.",
)
"""4.9.5 and later. 5.5.0 does it on the slave, where the next copy of the master's tables undoes it."""
CLEANED_BY_MASTER: Final = AtMaster(
    SUCCESS, "nothing was deleted: the queues of this slave go where its master deletes their topics"
)
"""`mqadmin` asks every broker of a cluster, slaves included, and stops at the first that does not answer 0."""
RESETS_AT_MASTER: Final = AtMaster(SYSTEM_ERROR, "Can not reset offset in slave broker")
TRANSACTIONS_AT_MASTER: Final = AtMaster(
    SLAVE_NOT_AVAILABLE, "this broker is a slave: transactions are ended and taken up again by its master"
)


class Refused(PeerError):
    """`response_code` is what the peer is answered with; the text becomes the remark."""

    def __init__(self, response_code: int, message: str) -> None:
        super().__init__(message)
        self.response_code = response_code

    def __reduce__(self) -> tuple[type[Refused], tuple[int, str]]:
        return (Refused, (self.response_code, self.message))


def illegal(why: str) -> Refused:
    """A message that must not be stored as it is (13)."""
    return Refused(MESSAGE_ILLEGAL, f"the message is illegal, {why}")


def response_code(error: BaseException) -> int:
    """The response code an error is answered with; 1 when it names none."""
    code = getattr(error, "response_code", None)
    if code is None:
        code = getattr(error, "code", None)
    return code if isinstance(code, int) and code > 0 else SYSTEM_ERROR


def remark_of(error: BaseException) -> str:
    """The remark an error is answered with: of a refusal its sentence, else what failed and why."""
    return str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
