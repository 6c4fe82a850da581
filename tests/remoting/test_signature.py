"""Signatures against Java's, and what they cover."""

from __future__ import annotations

import base64
import hmac
from typing import Any

import pytest

from bolide.remoting.codes import VERSION_5_5_0
from bolide.remoting.signature import full_signature_holds, sign, sign_request, signature_holds, signed_content
from tests.remoting.vectors import vectors


@pytest.mark.parametrize("vector", vectors("acl_signatures"))
def test_signatures_of_java(vector: dict[str, Any]) -> None:
    body = (vector["body"] or "").encode()
    content = signed_content(vector["ext"], body)
    assert content.hex() == vector["content"]
    assert sign(content, vector["secretKey"]) == vector["signature"]
    signed = vector["ext"] | {"Signature": vector["signature"]}
    assert signature_holds(signed, body, vector["secretKey"], 513)
    assert not signature_holds(signed, body + b"x", vector["secretKey"], 513)
    assert not signature_holds(signed, body, vector["secretKey"] + "x", 513)
    assert not signature_holds(vector["ext"], body, vector["secretKey"], 513)


def test_keys_are_ordered_as_java_orders_texts() -> None:
    # U+FF5E is above the surrogates of U+1F600 in UTF-16, and below it by code point.
    assert signed_content({"\uff5e": "2", "\U0001f600": "1"}, b"") == b"12"


def test_a_request_is_signed_and_a_late_field_breaks_it() -> None:
    ext = {"topic": "T"}
    sign_request(ext, b"body", "ak", "sk", "token")
    assert set(ext) == {"topic", "AccessKey", "SecurityToken", "Signature"}
    assert signature_holds(ext, b"body", "sk", 513)
    ext["bname"] = "b"
    assert not signature_holds(ext, b"body", "sk", 513)


def test_old_clients_do_not_sign_the_unique_key_mark() -> None:
    ext = {"topic": "T"}
    sign_request(ext, b"", "ak", "sk")
    ext["_UNIQUE_KEY_QUERY"] = "true"
    assert signature_holds(ext, b"", "sk", 399)
    assert not signature_holds(ext, b"", "sk", 401)


FIELDS = {"topic": "T", "queueId": "0", "order": ""}


def fully_signed(code: int = 310, secret: str = "s3cret") -> dict[str, str]:
    ext = dict(FIELDS)
    sign_request(ext, b"body", "alice", secret, code=code)
    return ext


def test_a_full_signature_is_one_more_field_for_rocketmq() -> None:
    ext = fully_signed()
    assert ext.keys() - FIELDS.keys() == {"AccessKey", "Signature", "BolideSignature"}
    assert signature_holds(ext, b"body", "s3cret", VERSION_5_5_0)
    assert full_signature_holds(310, ext, b"body", "s3cret") is True
    sign_request(ext, b"body", "alice", "s3cret", code=310)
    assert ext == fully_signed(), "a request is signed again"


def test_the_bytes_of_a_full_signature() -> None:
    content = b"bolide 1 310 [9, 5, 7, 1, 5, 1]\nAccessKeyalicequeueId0topicTbody"
    mac = base64.b64encode(hmac.new(b"s3cret", content, "sha256").digest()).decode()
    assert fully_signed()["BolideSignature"] == f"alice:{mac}"


@pytest.mark.parametrize(
    ("code", "changes", "body"),
    [
        (215, {}, b"body"),
        (310, {"topic": "T0", "queueId": ""}, b"body"),
        (310, {"topic": "", "topi": "T"}, b"body"),
        (310, {"more": "1"}, b"body"),
        (310, {"topic": "Tb"}, b"ody"),
        (310, {"queueId": ""}, b"body"),
        (310, {"BolideSignature": "alice:"}, b"body"),
    ],
)
def test_a_full_signature_is_of_one_code_and_of_names_and_values(
    code: int, changes: dict[str, str], body: bytes
) -> None:
    ext = {**fully_signed(), **changes}
    assert full_signature_holds(code, ext, body, "s3cret") is False


def test_fields_without_a_value_are_not_signed_because_a_binary_header_drops_them() -> None:
    ext = {name: value for name, value in fully_signed().items() if value}
    assert full_signature_holds(310, ext, b"body", "s3cret") is True


@pytest.mark.parametrize("given", ["", "alice", "root:abc", ":abc"])
def test_a_field_of_another_user_is_no_full_signature(given: str) -> None:
    assert full_signature_holds(310, {**fully_signed(), "BolideSignature": given}, b"body", "s3cret") is None


def test_the_secret_counts() -> None:
    assert full_signature_holds(310, fully_signed(), b"body", "guess") is False
    assert full_signature_holds(310, fully_signed(secret="guess"), b"body", "s3cret") is False
