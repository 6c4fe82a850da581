"""Headers: one struct per header of a supported request or response, one file per subject, and their decoders.

The structs have the fields and protocol names of the Java classes, except some inherited fields (see `base`).
"""

from bolide.remoting.headers.base import Header
from bolide.remoting.headers.decode import decode_header, lenient_header

__all__ = ["Header", "decode_header", "lenient_header"]
