"""A request refused by a rule: the response code and one sentence, raised where a return value would be in the way."""

from __future__ import annotations

from bolide.errors import PeerError
from bolide.remoting.codes import MESSAGE_ILLEGAL, SYSTEM_ERROR


class Refused(PeerError):
    """`response_code` is what the peer is answered with; the text becomes the remark."""

    def __init__(self, response_code: int, message: str) -> None:
        super().__init__(message)
        self.response_code = response_code

    def __reduce__(self) -> tuple[type[Refused], tuple[int, str]]:
        return (Refused, (self.response_code, self.message))


def on_a_slave() -> Refused:
    """Topics and groups are changed on the master (4.9.5 and later)."""
    text = "Can't modify topic or subscription group from slave broker, please execute it from master broker."
    return Refused(SYSTEM_ERROR, text)


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
