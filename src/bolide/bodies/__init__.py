"""Formats of message bodies (Avro, JSON, Protobuf) and the registries that hold their schemas.

Nothing here knows Spark, Arrow or a client: the Spark source makes columns of what these modules decode, the
console and `bolide consume` print it.
"""
