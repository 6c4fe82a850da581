"""Headers: one struct per request and response header served, in a file per noun, and how they are read.

Where a field is missing in a struct it is missing in RocketMQ; names on the wire are those of the Java classes.
"""

from bolide.remoting.headers.base import Header
from bolide.remoting.headers.decode import decode_header, lenient_header

__all__ = ["Header", "decode_header", "lenient_header"]
