"""The field of a bulk pull, in both forms of a header."""

from __future__ import annotations

import pytest

from bolide.remoting import codes
from bolide.remoting.bulk_pulls import BULK_BYTES, bulk_bytes, bulk_ext
from bolide.remoting.command import Command, make_request
from bolide.remoting.connection import FramedConnection


def sent(ext: dict[str, str], kind: int) -> Command:
    connection, other = FramedConnection(), FramedConnection()
    connection.send(make_request(codes.PULL_MESSAGE, 1, ext, serialize_type=kind))
    (command,) = other.receive(b"".join(connection.data_to_send()))
    return command


@pytest.mark.parametrize("kind", [codes.JSON_TYPE, codes.BINARY_TYPE])
def test_the_broker_reads_what_the_reader_sends(kind: int) -> None:
    assert bulk_bytes(sent({"topic": "T", **bulk_ext()}, kind)) == BULK_BYTES
    assert bulk_bytes(sent({"topic": "T", **bulk_ext(2**31 - 1)}, kind)) == 2**31 - 1
    assert bulk_bytes(sent({"topic": "T"}, kind)) == 0
    assert bulk_bytes(sent({}, kind)) == 0


@pytest.mark.parametrize("kind", [codes.JSON_TYPE, codes.BINARY_TYPE])
@pytest.mark.parametrize("text", ["", "0", "-1", "2147483648", "x", "1e3", "0x10", " 5", "9" * 200, "true"])
def test_other_values_are_ignored(text: str, kind: int) -> None:
    assert bulk_bytes(sent({"bolideBulkBytes": text}, kind)) == 0


def test_another_field_with_the_name_as_its_value_is_ignored() -> None:
    assert bulk_bytes(sent({"topic": "bolideBulkBytes", "group": '"bolideBulkBytes":"5"'}, codes.JSON_TYPE)) == 0
