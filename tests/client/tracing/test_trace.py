"""Lines of a message trace, against the lines Java writes."""

from __future__ import annotations

import pytest

from bolide.client.tracing.trace import (
    COMMITTED,
    DELAYED,
    EXCEPTION,
    TraceBean,
    TraceContext,
    decode_trace,
    encode_trace,
    trace_keys,
)
from bolide.errors import ProtocolError

SENT = TraceContext(
    "Pub",
    1700000000000,
    "P",
    (TraceBean("ID1", "T", "A", "k1 k2", "10.0.0.1:10911", "OFF", 12, DELAYED),),
    "Region",
    7,
)
BEGUN = TraceContext(
    "SubBefore",
    1700000000001,
    "G",
    (TraceBean("ID1", keys="k1 k2", retry_times=2), TraceBean("ID2")),
    "Region",
    request_id="REQ",
)
DECIDED = TraceContext(
    "EndTransaction",
    1700000000003,
    "P",
    (
        TraceBean(
            "ID1",
            "T",
            "A",
            store_host="10.0.0.1:10911",
            message_type=COMMITTED,
            transaction_id="TX",
            transaction_state="ROLLBACK_MESSAGE",
            from_check=True,
        ),
    ),
)
ENDED = TraceContext("SubAfter", 1700000000002, "G", BEGUN.beans, "", 3, False, "REQ", EXCEPTION)


def test_lines_are_those_of_java() -> None:
    assert encode_trace(SENT).split("\x01") == [
        *("Pub", "1700000000000", "Region", "P", "T", "ID1", "A", "k1 k2", "10.0.0.1:10911", "12", "7", "3", "OFF"),
        "true\x02",
    ]
    first, second, rest = encode_trace(BEGUN).split("\x02")
    assert first.split("\x01") == ["SubBefore", "1700000000001", "Region", "G", "REQ", "ID1", "2", "k1 k2"]
    assert second.split("\x01") == ["SubBefore", "1700000000001", "Region", "G", "REQ", "ID2", "0", "null"]
    assert rest == ""
    ended = encode_trace(ENDED).split("\x02")[1].split("\x01")
    assert ended == ["SubAfter", "REQ", "ID2", "3", "false", "null", "2", "1700000000002", "G"]
    assert encode_trace(DECIDED).split("\x01") == [
        *("EndTransaction", "1700000000003", "DefaultRegion", "P", "T", "ID1", "A", "null", "10.0.0.1:10911", "2"),
        *("TX", "ROLLBACK_MESSAGE", "true\x02"),
    ]


def test_encoded_trace_decodes_unchanged() -> None:
    found = decode_trace(encode_trace(SENT) + encode_trace(BEGUN) + encode_trace(ENDED))
    assert found[0] == SENT
    assert decode_trace(encode_trace(DECIDED)) == [DECIDED]
    assert [bean for context in found[1:3] for bean in context.beans] == list(BEGUN.beans)
    assert [(context.request_id, context.success, context.context_code) for context in found[3:]] == [
        ("REQ", False, EXCEPTION)
    ] * 2


def test_keys_are_ids_and_keys() -> None:
    assert trace_keys(BEGUN) == {"ID1", "ID2", "k1", "k2"}


def test_older_lines_are_read() -> None:
    short = "\x01".join(["Pub", "1", "R", "G", "T", "ID", "null", "null", "h:1", "2", "3", "0", "true"])
    ended = "\x01".join(["SubAfter", "REQ", "ID", "3", "true", "k"])
    unknown = "Recall\x011\x01R"
    sent, end = decode_trace(f"{short}\x02{unknown}\x02{ended}\x02")
    assert (sent.success, sent.beans[0].tags, sent.beans[0].offset_message_id) == (True, "", "")
    assert (end.timestamp, end.success, end.beans[0].keys) == (0, True, "k")


@pytest.mark.parametrize("line", ["Pub\x01now", "SubBefore\x011\x01R", "SubAfter\x01REQ\x01ID\x01x\x01true\x01k"])
def test_lines_that_are_none_are_refused(line: str) -> None:
    with pytest.raises(ProtocolError, match="cannot be read"):
        decode_trace(line)
