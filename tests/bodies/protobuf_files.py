"""A Protobuf file as protoc would describe it, and messages of its types."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from google.protobuf import descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

ORDER = {
    "id": "18446744073709551615",
    "total": 9.5,
    "place": {"city": "Cairo"},
    "at": "2026-01-02T03:04:05.000006Z",
    "labels": ["a", "b"],
    "state": "PAID",
    "counts": {"x": 3},
    "raw": "/w==",
}
"""An order as `json_format.ParseDict` takes it."""
PLAIN: dict[str, Any] = {
    "id": 18446744073709551615,
    "total": 9.5,
    "place": {"city": "Cairo"},
    "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "labels": ["a", "b"],
    "state": "PAID",
    "counts": {"x": 3},
    "raw": b"\xff",
}
"""The same as it is decoded."""


def places() -> FileDescriptorProto:
    """shop/place.proto: `message Place { string city = 1; }`."""
    file = FileDescriptorProto(name="shop/place.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Place")
    message.field.add(name="city", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    return file


def orders() -> FileDescriptorProto:
    """shop/order.proto, which imports the other: messages Ignored and Order, and Order.Line."""
    file = FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    file.dependency.extend(["shop/place.proto", "google/protobuf/timestamp.proto"])
    file.message_type.add(name="Ignored").field.add(
        name="x", number=1, type=Field.TYPE_INT32, label=Field.LABEL_OPTIONAL
    )
    order = file.message_type.add(name="Order")
    one, many = Field.LABEL_OPTIONAL, Field.LABEL_REPEATED
    order.field.add(name="id", number=1, type=Field.TYPE_UINT64, label=one)
    order.field.add(name="total", number=2, type=Field.TYPE_DOUBLE, label=one)
    order.field.add(name="place", number=3, type=Field.TYPE_MESSAGE, type_name=".shop.Place", label=one)
    order.field.add(name="at", number=4, type=Field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=one)
    order.field.add(name="labels", number=5, type=Field.TYPE_STRING, label=many)
    order.field.add(name="state", number=6, type=Field.TYPE_ENUM, type_name=".shop.State", label=one)
    order.field.add(name="counts", number=7, type=Field.TYPE_MESSAGE, type_name=".shop.Order.CountsEntry", label=many)
    order.field.add(name="raw", number=8, type=Field.TYPE_BYTES, label=one)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=one)
    entry.field.add(name="value", number=2, type=Field.TYPE_INT32, label=one)
    line = order.nested_type.add(name="Line")
    line.field.add(name="amount", number=1, type=Field.TYPE_SINT32, label=one)
    state = file.enum_type.add(name="State")
    state.value.add(name="OPEN", number=0)
    state.value.add(name="PAID", number=1)
    return file


def descriptors() -> bytes:
    """What `protoc --include_imports --descriptor_set_out` writes."""
    time = FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(time)
    return FileDescriptorSet(file=[places(), time, orders()]).SerializeToString()


def written(name: str, values: dict[str, Any]) -> bytes:
    """The bytes of a message; `values` are as `json_format.ParseDict` takes them."""
    from google.protobuf import json_format

    pool = descriptor_pool.DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors()).file:
        pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
    data: bytes = json_format.ParseDict(values, made).SerializeToString()
    return data
