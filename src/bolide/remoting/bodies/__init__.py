"""JSON bodies: one struct per body that is read or written, in a file per noun; `base` reads and writes them."""

from bolide.remoting.bodies.base import Body, MessageQueue, decode_body, encode_body

__all__ = ["Body", "MessageQueue", "decode_body", "encode_body"]
