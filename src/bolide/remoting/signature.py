"""The signature of a request (AclClientRPCHook.java, AclUtils.java, AclSigner.java).

Base64 of HMAC-SHA1, keyed with the secret, over the values of the extension fields, ordered by key, followed by the
body. The order is that of Java strings: by UTF-16 code units. ``code``, ``version`` and ``opaque`` are not signed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from bolide.remoting.codes import VERSION_4_9_3

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"


def signed_content(ext: Mapping[str, str], body: bytes, leave_out: tuple[str, ...] = ()) -> bytes:
    """The bytes a signature covers: field values in key order without separators, then the body."""
    keys = sorted((key for key in ext if key != SIGNATURE and key not in leave_out), key=_utf16)
    return "".join(ext[key] for key in keys).encode("utf-8", "replace") + body


def sign(content: bytes, secret_key: str) -> str:
    """The signature text of `content`."""
    return base64.b64encode(hmac.new(secret_key.encode("utf-8", "replace"), content, hashlib.sha1).digest()).decode()


def sign_request(ext: dict[str, str], body: bytes, access_key: str, secret_key: str, security_token: str = "") -> None:
    """Put access key, token and signature into `ext`. A field put in later is not covered and breaks verification."""
    ext[ACCESS_KEY] = access_key
    if security_token:
        ext[SECURITY_TOKEN] = security_token
    ext[SIGNATURE] = sign(signed_content(ext, body), secret_key)


def signature_holds(ext: Mapping[str, str], body: bytes, secret_key: str, version: int) -> bool:
    """Whether the request was signed with this secret. version: the sender's, since up to 4.9.3 a field is unsigned."""
    leave_out = (UNIQUE_KEY_QUERY,) if version <= VERSION_4_9_3 else ()
    expected = sign(signed_content(ext, body, leave_out), secret_key)
    return hmac.compare_digest(expected.encode(), ext.get(SIGNATURE, "").encode("utf-8", "replace"))


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")
