"""Formats of message bodies (Avro, JSON, Protobuf) and the registries that hold their schemas.

These modules do not depend on Spark, Arrow or a client. The Spark source converts decoded values to columns, and the
console and `bolide consume` print them.
"""
