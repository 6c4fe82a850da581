"""Values as Protobuf messages."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from bolide.bodies.protobuf import ProtobufDecoder, ProtobufTypes, plain_of
from bolide.bodies.protobuf_writing import ProtobufEncoder
from bolide.bodies.registry import SchemaError, UnfitBody
from tests.bodies.protobuf_files import PLAIN, descriptors, places


def types_of(*files: FileDescriptorProto) -> ProtobufTypes:
    return ProtobufTypes.of_set(FileDescriptorSet(file=files).SerializeToString())


def there_and_back(types: ProtobufTypes, name: str, values: dict[str, Any]) -> Any:
    descriptor = types.named(name)
    body = ProtobufEncoder(types, descriptor).encode(values)
    return plain_of(descriptor)(ProtobufDecoder(types, descriptor).decode(body))


def test_encoded_values_are_read_back() -> None:
    types = ProtobufTypes.of_set(descriptors())
    assert there_and_back(types, "shop.Order", PLAIN) == PLAIN
    assert there_and_back(types, "shop.Order", {**PLAIN, "id": Decimal(18446744073709551615)}) == PLAIN
    unset = there_and_back(types, "shop.Order", dict.fromkeys(PLAIN))
    assert (unset["place"], unset["at"], unset["id"], unset["labels"]) == (None, None, 0, [])
    assert there_and_back(types, "shop.Order", {"place": {"city": None}})["place"] == {"city": ""}
    assert there_and_back(types, "shop.Order", {"state": "7"})["state"] == "7"


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("id", -1, "shop.Order does not accept it"),
        ("id", 1 << 64, "shop.Order does not accept it"),
        ("state", "LOST", "its field state is 'LOST', not one of OPEN, PAID"),
        ("labels", ["a", None], "its field labels contains null"),
        ("counts", {"x": None}, "its field counts contains null"),
        ("counts", {"x": 1 << 31}, "shop.Order does not accept it"),
    ],
)
def test_a_value_that_does_not_fit_is_not_encoded(field: str, value: object, why: str) -> None:
    types = ProtobufTypes.of_set(descriptors())
    with pytest.raises(UnfitBody, match=why):
        ProtobufEncoder(types, types.named("shop.Order")).encode({field: value})


def choices() -> ProtobufTypes:
    """A oneof of two messages, a list and a map of messages."""
    file = FileDescriptorProto(name="choice.proto", syntax="proto3")
    message = file.message_type.add(name="Choice")
    message.oneof_decl.add(name="way")
    for number, name in enumerate(("card", "cash"), 1):
        message.field.add(name=name, number=number, type=Field.TYPE_INT32, label=1, oneof_index=0)
    message.field.add(name="many", number=3, type=Field.TYPE_MESSAGE, type_name=".Choice.Part", label=3)
    message.field.add(name="by_name", number=4, type=Field.TYPE_MESSAGE, type_name=".Choice.ByNameEntry", label=3)
    entry = message.nested_type.add(name="ByNameEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=Field.TYPE_MESSAGE, type_name=".Choice.Part", label=1)
    message.nested_type.add(name="Part").field.add(name="n", number=1, type=Field.TYPE_INT32, label=1)
    return types_of(file)


def test_a_oneof_has_one_field() -> None:
    values = {"card": None, "cash": 2, "many": [{"n": 1}, {"n": None}], "by_name": {"x": {"n": 3}, "y": {"n": None}}}
    found = there_and_back(choices(), "Choice", values)
    assert found == {**values, "many": [{"n": 1}, {"n": 0}], "by_name": {"x": {"n": 3}, "y": {"n": 0}}}
    with pytest.raises(UnfitBody, match="it sets several fields of way: a Choice has only one"):
        there_and_back(choices(), "Choice", {"card": 1, "cash": 2})


def test_positions_go_round() -> None:
    types = choices()
    part = types.named("Choice").nested_types_by_name["Part"]
    assert types.position_of(part) == (0, 1)
    assert types.at((0, 1)).full_name == "Choice.Part"
    orders = ProtobufTypes.of_set(descriptors())
    assert orders.position_of(orders.named("shop.Order")) == (1,)
    with pytest.raises(SchemaError, match=r"shop.Place is in the file shop/place.proto"):
        orders.position_of(orders.named("shop.Place"))


def test_a_type_that_contains_itself_is_refused() -> None:
    file = places()
    file.message_type[0].field.add(
        name="near", number=2, type=Field.TYPE_MESSAGE, type_name=".shop.Place", label=Field.LABEL_OPTIONAL
    )
    types = types_of(file)
    with pytest.raises(SchemaError, match="contains itself"):
        ProtobufEncoder(types, types.named("shop.Place"))
