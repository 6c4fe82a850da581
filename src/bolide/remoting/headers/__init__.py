"""Headers: one struct per served request and response header, one file per subject, and their decoders.

Fields missing in a struct are missing in RocketMQ too; protocol names are those of the Java classes.
"""

from bolide.remoting.headers.base import Header
from bolide.remoting.headers.decode import decode_header, lenient_header

__all__ = ["Header", "decode_header", "lenient_header"]
