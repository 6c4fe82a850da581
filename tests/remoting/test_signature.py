"""Signatures against Java's, and what they cover."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.remoting.signature import sign, sign_request, signature_holds, signed_content
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
