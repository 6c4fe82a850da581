"""`Refused`: rejects a request with a response code and one sentence."""

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
    SUCCESS, "nothing was deleted: a slave deletes queues when its master deletes their topics"
)
"""`mqadmin` sends it to every broker of a cluster, even slaves, and stops at the first response other than 0."""
RESETS_AT_MASTER: Final = AtMaster(SYSTEM_ERROR, "Can not reset offset in slave broker")
TRANSACTIONS_AT_MASTER: Final = AtMaster(
    SLAVE_NOT_AVAILABLE, "this broker is a slave: only its master ends and resumes transactions"
)


class Refused(PeerError):
    """Rejects a request. `response_code` is the code of the response; the text becomes its remark."""

    def __init__(self, response_code: int, message: str) -> None:
        super().__init__(message)
        self.response_code = response_code

    def __reduce__(self) -> tuple[type[Refused], tuple[int, str]]:
        return (Refused, (self.response_code, self.message))


def illegal(why: str) -> Refused:
    """Return the error for an invalid message (13)."""
    return Refused(MESSAGE_ILLEGAL, f"the message is illegal, {why}")


def response_code(error: BaseException) -> int:
    """Return the response code for an error: its code, or 1 if it has none."""
    code = getattr(error, "response_code", None)
    if code is None:
        code = getattr(error, "code", None)
    return code if isinstance(code, int) and code > 0 else SYSTEM_ERROR


def remark_of(error: BaseException) -> str:
    """Return the remark for an error: the sentence of a rejection, otherwise the type and text of the error."""
    return str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
