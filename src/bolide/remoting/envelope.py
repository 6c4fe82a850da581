"""The JSON header of a frame as a msgspec struct, with its extension fields as raw text.

The fields of ``extFields`` are decoded later by the struct of the code, or not at all. An access check signs all of
them, also unknown fields. Not compiled: msgspec builds structs with a metaclass that mypyc does not support. Format:
remoting header of RemotingCommand.java.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw, Struct

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

NO_EXT: Final = Raw(b"")


class Envelope(Struct):
    """One JSON header. An absent key has the default of a Java receiver."""

    code: Int32 = 0
    flag: Int32 = 0
    language: str = "JAVA"
    opaque: Int32 = 0
    version: Int32 = 0
    remark: str | None = None
    extFields: Raw = NO_EXT


ENVELOPE_DECODER: Final = msgspec.json.Decoder(Envelope)
EXT_DECODER: Final = msgspec.json.Decoder(dict[str, str])
JSON_ENCODER: Final = msgspec.json.Encoder()
SORTED_ENCODER: Final = msgspec.json.Encoder(order="sorted")
"""For bodies: Java writes the names of an object in alphabetical order."""
