"""Protobuf messages by a descriptor set, and by the schemas of a registry."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from bolide.bodies.confluent import ConfluentRegistry
from bolide.bodies.protobuf import ProtobufDecoder, ProtobufTypes, descriptor_set, plain_of
from bolide.bodies.registry import RegistryAddress, SchemaError, UnfitBody
from tests.bodies.protobuf_files import ORDER, PLAIN, descriptors, orders, places, written
from tests.bodies.registry_server import framed, registry


def decoder(name: str = "shop.Order") -> Any:
    types = ProtobufTypes.of_set(descriptors())
    descriptor = types.named(name)
    plain, found = plain_of(descriptor), ProtobufDecoder(types, descriptor)
    return lambda body: plain(found.decode(body))


def test_a_message_as_plain_values() -> None:
    assert decoder()(written("shop.Order", ORDER)) == PLAIN


def test_fields_that_are_not_set() -> None:
    empty = {"id": 0, "total": 0.0, "place": None, "at": None, "labels": [], "state": "OPEN", "counts": {}, "raw": b""}
    assert decoder()(b"") == empty


def test_an_unknown_enum_is_its_number_and_unknown_fields_are_left_out() -> None:
    assert decoder()(b"\x30\x07\xa0\x06\x01")["state"] == "7"


@pytest.mark.parametrize("body", [b"\x08", b"\xff", b"\x22\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10\x01"])
def test_what_is_no_message(body: bytes) -> None:
    with pytest.raises(UnfitBody):
        decoder()(body)


def test_types_are_found_by_name() -> None:
    types = ProtobufTypes.of_set(descriptors())
    with pytest.raises(SchemaError, match=r"no message shop\.Nope; it has shop\.Ignored, shop\.Order"):
        types.named("shop.Nope")
    with pytest.raises(SchemaError, match=r"name one of shop\.Ignored, shop\.Order"):
        types.named("")
    assert (
        ProtobufTypes.of_set(FileDescriptorSet(file=[places()]).SerializeToString()).named("").full_name == "shop.Place"
    )


def test_descriptor_sets_that_cannot_be_used() -> None:
    for data, why in (
        (b"\xff", "not a descriptor set"),
        (b"", "describes no file"),
        (FileDescriptorSet(file=[orders()]).SerializeToString(), r"lacks the file shop/place\.proto"),
    ):
        with pytest.raises(SchemaError, match=why):
            ProtobufTypes.of_set(data)


def test_files_that_import_each_other_are_refused() -> None:
    files = [
        FileDescriptorProto(name="a.proto", dependency=["b.proto"]),
        FileDescriptorProto(name="b.proto", dependency=["a.proto"]),
    ]
    with pytest.raises(SchemaError):
        ProtobufTypes.of_set(FileDescriptorSet(file=files).SerializeToString())


def test_a_message_that_contains_itself_is_refused() -> None:
    file = FileDescriptorProto(name="t.proto", syntax="proto3")
    tree = file.message_type.add(name="Tree")
    tree.field.add(name="of", number=1, type=Field.TYPE_MESSAGE, type_name=".Tree", label=Field.LABEL_OPTIONAL)
    with pytest.raises(SchemaError, match="Tree contains itself"):
        plain_of(ProtobufTypes.of_set(FileDescriptorSet(file=[file]).SerializeToString()).named("Tree"))


def test_types_that_share_types_are_understood_in_linear_time() -> None:
    file = FileDescriptorProto(name="t.proto", syntax="proto3")
    for number in range(30):  # 2^30 paths lead from the first type to the last
        message = file.message_type.add(name=f"M{number}")
        for place in (1, 2) if number < 29 else ():
            message.field.add(
                name=f"of{place}",
                number=place,
                type=Field.TYPE_MESSAGE,
                type_name=f".M{number + 1}",
                label=Field.LABEL_OPTIONAL,
            )
    types = ProtobufTypes.of_set(FileDescriptorSet(file=[file]).SerializeToString())
    descriptor = types.named("M0")
    assert plain_of(descriptor)(ProtobufDecoder(types, descriptor).decode(b"\x0a\x00")) == {
        "of1": {"of1": None, "of2": None},
        "of2": None,
    }


def test_a_registrys_message() -> None:
    with registry() as served:
        served.add("shop/place.proto", base64.b64encode(places().SerializeToString()).decode(), "PROTOBUF")
        reference = {"name": "shop/place.proto", "subject": "shop/place.proto", "version": 1}
        main = orders()
        main.name = ""  # a registry need not give a name
        text = base64.b64encode(main.SerializeToString()).decode()
        served.add("orders-value", text, "PROTOBUF", [reference])
        asking = ConfluentRegistry(RegistryAddress(served.address))
        schema = asking.latest("orders-value")
        types = ProtobufTypes.of_set(descriptor_set(schema))
        descriptor = types.named("shop.Order")
        decode = ProtobufDecoder(types, descriptor, asking).decode
        payload = written("shop.Order", ORDER)
        for _ in range(2):
            assert plain_of(descriptor)(decode(framed(int(schema.id), payload, (1,)))) == PLAIN
        for message, why in (
            ((0,), r"it is a shop\.Ignored, not a shop\.Order"),
            ((1, 1), r"it is a shop\.Order\.Line, not"),
            ((2,), "no message at the position"),
            ((1, 0, 5), "no message at the position"),
        ):
            with pytest.raises(UnfitBody, match=why):
                decode(framed(int(schema.id), payload, message))
