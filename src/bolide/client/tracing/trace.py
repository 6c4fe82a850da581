"""Lines of a message trace: sends, and the start and end of consumption (RocketMQ's TraceDataEncoder).

A step has one line per message. Fields are separated by 0x01, and lines end with 0x02. Like Java, this writes the word
``null`` for null: an empty last field would be lost by Java's ``split`` and fail its decoder.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from bolide.client.messages.checked import checked
from bolide.client.messages.send_result import DEFAULT_REGION
from bolide.errors import ProtocolError
from bolide.layout.words import split_keys

FIELD: Final = "\x01"
LINE: Final = "\x02"
SENT, CONSUME_BEGINS, CONSUME_ENDS, TRANSACTION_ENDS = "Pub", "SubBefore", "SubAfter", "EndTransaction"
NORMAL, HALF, COMMITTED, DELAYED, ORDERED = range(5)
"""Ordinals of Java's MessageType."""
SUCCESS, TIME_OUT, EXCEPTION, RETURNED_NULL, FAILED = range(5)
"""Ordinals of Java's ConsumeReturnType, the `context_code` of a SubAfter line."""


class TraceBean(Struct, frozen=True):
    """One message of a step; each kind of step uses some of the fields. `keys` are separated by spaces.

    `transaction_state` is one of Java's names: COMMIT_MESSAGE, ROLLBACK_MESSAGE, UNKNOW. `from_check` is True if the
    broker requested it.
    """

    message_id: str
    topic: str = ""
    tags: str = ""
    keys: str = ""
    store_host: str = ""
    offset_message_id: str = ""
    body_length: int = 0
    message_type: int = NORMAL
    retry_times: int = 0
    transaction_id: str = ""
    transaction_state: str = ""
    from_check: bool = False


class TraceContext(Struct, frozen=True):
    """One step. `kind` is ``Pub``, ``SubBefore``, ``SubAfter`` or ``EndTransaction``, `timestamp` ms since 1970,
    `cost_ms` its duration.

    `request_id` joins the start and the end of one listener call.
    """

    kind: str
    timestamp: int
    group: str
    beans: tuple[TraceBean, ...]
    region_id: str = DEFAULT_REGION
    cost_ms: int = 0
    success: bool = True
    request_id: str = ""
    context_code: int = SUCCESS


def encode_trace(context: TraceContext) -> str:
    """Return the lines of a step, one per message."""
    return "".join(FIELD.join(_fields(context, bean)) + LINE for bean in context.beans)


def trace_keys(context: TraceContext) -> set[str]:
    """Return the search keys of a step's trace: the ids of its messages and their keys."""
    return {key for bean in context.beans for key in (bean.message_id, *split_keys(bean.keys)) if key}


def _fields(context: TraceContext, bean: TraceBean) -> tuple[str, ...]:
    success = "true" if context.success else "false"
    step = (context.kind, str(context.timestamp), context.region_id, context.group)
    message = (bean.topic, bean.message_id, bean.tags or "null", bean.keys or "null", bean.store_host)
    if context.kind == SENT:
        size, cost, kind = str(bean.body_length), str(context.cost_ms), str(bean.message_type)
        return (*step, *message, size, cost, kind, bean.offset_message_id or "null", success)
    if context.kind == TRANSACTION_ENDS:
        asked = "true" if bean.from_check else "false"
        transaction = (bean.transaction_id or "null", bean.transaction_state, asked)
        return (*step, *message, str(bean.message_type), *transaction)
    if context.kind == CONSUME_BEGINS:
        return (*step, context.request_id, bean.message_id, str(bean.retry_times), bean.keys or "null")
    return (
        CONSUME_ENDS,
        context.request_id,
        bean.message_id,
        str(context.cost_ms),
        success,
        bean.keys or "null",
        str(context.context_code),
        str(context.timestamp),
        context.group,
    )


@checked
def decode_trace(text: str) -> list[TraceContext]:
    """Return the steps in the body of a trace message, one per line. Skips unknown kinds.

    Also accepts lines of 4.x, which lack the offset id and the host in a Pub line, and the code, time and group in a
    SubAfter line. Raises `ProtocolError` for a line that cannot be read.
    """
    found = []
    for line in text.split(LINE):
        fields = ["" if field == "null" else field for field in line.split(FIELD)]
        read = _READERS.get(fields[0])
        if read is None:
            continue
        try:
            found.append(read(fields))
        except (IndexError, ValueError) as error:
            raise ProtocolError(f"the trace line {line!r} cannot be read: {error}") from error
    return found


def _read_sent(fields: list[str]) -> TraceContext:
    bean = TraceBean(
        fields[5],
        fields[4],
        fields[6],
        fields[7],
        fields[8],
        fields[12] if len(fields) >= 14 else "",
        int(fields[9]),
        int(fields[11]),
    )
    success = fields[13 if len(fields) >= 14 else 12] == "true"
    return TraceContext(SENT, int(fields[1]), fields[3], (bean,), fields[2], int(fields[10]), success)


def _read_begin(fields: list[str]) -> TraceContext:
    bean = TraceBean(fields[5], keys=fields[7], retry_times=int(fields[6]))
    return TraceContext(CONSUME_BEGINS, int(fields[1]), fields[3], (bean,), fields[2], request_id=fields[4])


def _read_end(fields: list[str]) -> TraceContext:
    timed = len(fields) >= 9
    return TraceContext(
        CONSUME_ENDS,
        int(fields[7]) if timed else 0,
        fields[8] if timed else "",
        (TraceBean(fields[2], keys=fields[5]),),
        "",
        int(fields[3]),
        fields[4] == "true",
        fields[1],
        int(fields[6]) if len(fields) >= 7 else SUCCESS,
    )


def _read_transaction(fields: list[str]) -> TraceContext:
    bean = TraceBean(
        fields[5],
        fields[4],
        fields[6],
        fields[7],
        fields[8],
        message_type=int(fields[9]),
        transaction_id=fields[10],
        transaction_state=fields[11],
        from_check=fields[12] == "true",
    )
    return TraceContext(TRANSACTION_ENDS, int(fields[1]), fields[3], (bean,), fields[2])


_READERS: Final = {
    SENT: _read_sent,
    CONSUME_BEGINS: _read_begin,
    CONSUME_ENDS: _read_end,
    TRANSACTION_ENDS: _read_transaction,
}
