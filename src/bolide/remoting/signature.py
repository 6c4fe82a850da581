"""The signature of a request (AclClientRPCHook.java, AclUtils.java, AclSigner.java).

Base64 of HMAC-SHA1, keyed with the secret, over the values of the extension fields, ordered by key, followed by the
body. Keys are in the order of Java strings, by UTF-16 code units. ``code``, ``version`` and ``opaque`` are not signed.

Because names, boundaries and code are not signed, one signature is valid for several requests. Bolide's clients and
brokers add a field with a full signature, which covers the code, each name and value with its length, and the body.
RocketMQ's servers treat it like any unknown field.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from typing import Final

from bolide.remoting.codes import VERSION_4_9_3

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"
FULL_SIGNATURE: Final = "BolideSignature"
"""Field of the full signature: the access key, a colon, and Base64 of HMAC-SHA256."""
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"


def signed_content(ext: Mapping[str, str], body: bytes, leave_out: tuple[str, ...] = ()) -> bytes:
    """Return the bytes that a signature covers: field values in key order without separators, then the body."""
    keys = [key for key in ext if key != SIGNATURE and key not in leave_out]
    keys.sort(key=None if "".join(keys).isascii() else _utf16)  # both orders are the same for ASCII
    return "".join([ext[key] for key in keys]).encode("utf-8", "replace") + body


def sign(content: bytes, secret_key: str) -> str:
    """Return the signature text of `content`."""
    return base64.b64encode(hmac.digest(secret_key.encode("utf-8", "replace"), content, "sha1")).decode()


def sign_request(
    ext: dict[str, str], body: bytes, access_key: str, secret_key: str, security_token: str = "", *, code: int = -1
) -> None:
    """Add access key, token and signature to `ext`. A field that is added later is not covered and breaks verification.

    With the `code` of the request, also add a full signature.
    """
    ext[ACCESS_KEY] = access_key
    if security_token:
        ext[SECURITY_TOKEN] = security_token
    if code >= 0:
        ext[FULL_SIGNATURE] = f"{access_key}:{_full(code, ext, body, secret_key)}"
    ext[SIGNATURE] = sign(signed_content(ext, body), secret_key)


def signature_holds(ext: Mapping[str, str], body: bytes, secret_key: str, version: int) -> bool:
    """Return whether the request was signed with this secret. `version` is the sender's: up to 4.9.3, a field is
    unsigned."""
    leave_out = (UNIQUE_KEY_QUERY,) if version <= VERSION_4_9_3 else ()
    expected = sign(signed_content(ext, body, leave_out), secret_key)
    return hmac.compare_digest(expected.encode(), ext.get(SIGNATURE, "").encode("utf-8", "replace"))


def full_signature_holds(code: int, ext: Mapping[str, str], body: bytes, secret_key: str) -> bool | None:
    """Return whether the full signature is right, or None if the request has no full signature of its user.

    A proxy that re-signs a request keeps the field of the first user.
    """
    name, colon, given = ext.get(FULL_SIGNATURE, "").rpartition(":")
    if not colon or name != ext.get(ACCESS_KEY):
        return None
    return hmac.compare_digest(_full(code, ext, body, secret_key).encode(), given.encode("utf-8", "replace"))


def _full(code: int, ext: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the Base64 text. Omits fields without a value, because the binary header does not contain them."""
    texts: list[str] = []
    for key in sorted(ext):
        value = ext[key]
        if value and key and key != SIGNATURE and key != FULL_SIGNATURE:
            texts += key, value
    lengths = list(map(len, texts))  # in characters
    content = f"bolide 1 {code} {lengths}\n{''.join(texts)}".encode("utf-8", "replace") + body
    return base64.b64encode(hmac.digest(secret_key.encode("utf-8", "replace"), content, "sha256")).decode()


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")
