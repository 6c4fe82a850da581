"""Reads the expiry of a PEM certificate: `notAfter` of an X.509 certificate (RFC 5280, section 4.1).

Python's ssl module returns it only for a peer's certificate, not for our own.
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from typing import Final

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VERSION: Final = 0xA0
_BEFORE_VALIDITY: Final = 3
"""Number of fields before the validity: serial number, algorithm and issuer."""
_UTC_TIME: Final = 0x17
_MULTIPLE: Final = 0x80
_CENTURY: Final = 50


def certificate_end(text: str) -> int | None:
    """Return the expiry of the first certificate in a PEM file in ms since 1970, or None if it cannot be read."""
    found = _PEM.search(text)
    if found is None:
        return None
    try:
        return _not_after(ssl.PEM_cert_to_DER_cert(found[0]))
    except (ValueError, IndexError):
        return None


def _not_after(der: bytes) -> int:
    _, certificate, _ = _element(der, 0)
    _, signed, _ = _element(der, certificate)
    tag, _, after = _element(der, signed)
    at = after if tag == _VERSION else signed
    for _ in range(_BEFORE_VALIDITY):
        _, _, at = _element(der, at)
    _, validity, _ = _element(der, at)
    _, _, second = _element(der, validity)
    tag, begin, end = _element(der, second)
    digits = der[begin:end].decode("ascii").removesuffix("Z")
    if tag == _UTC_TIME:
        digits = ("20" if int(digits[:2]) < _CENTURY else "19") + digits
    return round(datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp() * 1000)


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag of a DER element, and the start and end of its content."""
    length = der[at + 1]
    begin = at + 2
    if length >= _MULTIPLE:
        count = length - _MULTIPLE
        length = int.from_bytes(der[begin : begin + count], "big")
        begin += count
    if begin + length > len(der):
        raise ValueError("the certificate is truncated")
    return der[at], begin, begin + length
