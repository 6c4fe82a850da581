"""Builds frames of many requests that differ in a few fields. Encodes the common part only once."""

from __future__ import annotations

import re
from typing import Final

from bolide.remoting.codes import JSON_TYPE
from bolide.remoting.command import encode, frame_head, make_request
from bolide.remoting.envelope import JSON_ENCODER

_HEAD_SIZE: Final = 8


class FrameTemplate:
    """A template of unsigned requests with the same code."""

    def __init__(self, code: int, common: dict[str, str]) -> None:
        """Takes the `common` extension fields of all requests, at least one."""
        header = encode(make_request(code, 0, {"": ""}))[_HEAD_SIZE:]
        before, after = header.split(b'{"":""}')
        middle, self._tail = re.split(rb'(?<="opaque":)0', after)
        self._head = before + JSON_ENCODER.encode(common)[:-1] + b","
        self._middle = b"}" + middle

    def frame(self, fields: bytes, opaque: int, body: bytes = b"") -> bytes:
        """Return a request. `fields` contains its other extension fields in JSON, without braces."""
        header = b"%b%b%b%d%b" % (self._head, fields, self._middle, opaque, self._tail)
        return frame_head(header, JSON_TYPE, len(body)) + body
