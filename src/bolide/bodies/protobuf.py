"""Protobuf bodies: messages of a type that a descriptor set or a registry describes.

`protoc --include_imports --descriptor_set_out=orders.desc orders.proto` writes a descriptor set. Messages are read by
field number, so a body of an older or newer version of its type is read as far as both versions have the fields.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any, Final

from bolide.bodies.parsed_schemas import ParsedSchemas
from bolide.bodies.registry import PROTOBUF, FramedBody, RegisteredSchema, Registry, SchemaError, UnfitBody

MOST_NESTED: Final = 32
"""Maximum nesting depth of messages in a type."""


class ProtobufTypes:
    """The message types of a set of files."""

    def __init__(self, files: Iterable[Any]) -> None:
        """Takes FileDescriptorProtos. Bodies are messages of the last file. Raises `SchemaError` if a file is
        invalid."""
        pool_module, self._factory = _runtime()
        self._pool = pool_module.DescriptorPool()
        waiting = {file.name: file for file in files}
        if not waiting:
            raise SchemaError("it describes no file")
        main = next(reversed(waiting))
        try:
            while waiting:
                _, file = waiting.popitem()
                self._add(file, waiting)
            self._file = self._pool.FindFileByName(main)
        except SchemaError:
            raise
        except Exception as error:  # errors of Protobuf's runtimes have no common base class
            raise SchemaError(f"its types cannot be used: {type(error).__name__}: {error}") from None

    @staticmethod
    def of_set(data: bytes) -> ProtobufTypes:
        """Load the types of a serialized descriptor set. Raises `SchemaError` if it is invalid."""
        _runtime()
        from google.protobuf.descriptor_pb2 import FileDescriptorSet

        found = FileDescriptorSet()
        try:
            found.ParseFromString(data)
        except Exception as error:  # as above
            raise SchemaError(f"it is not a descriptor set: {error}; protoc --descriptor_set_out writes one") from None
        return ProtobufTypes(found.file)

    def named(self, name: str) -> Any:
        """Return the descriptor of a message by its full name, or of the only message if `name` is "". Raises
        `SchemaError` if there is no such message."""
        if name:
            try:
                return self._pool.FindMessageTypeByName(name)
            except KeyError:
                raise SchemaError(f"it has no message {name}; it has {', '.join(self._names())}") from None
        names = self._names()
        if len(names) != 1:
            raise SchemaError(f"it has several messages: name one of {', '.join(names)}")
        return self._pool.FindMessageTypeByName(names[0])

    def at(self, positions: tuple[int, ...]) -> Any:
        """Return the descriptor of the message at these positions of the file. Raises `UnfitBody` if the file has no
        such message."""
        found: Any = None
        for position in positions:
            inner = self._file.message_types_by_name if found is None else found.nested_types_by_name
            if position >= len(inner):
                raise UnfitBody("its schema has no message at the position that it names")
            found = list(inner.values())[position]
        return found

    def position_of(self, descriptor: Any) -> tuple[int, ...]:
        """Return the positions of a message, the reverse of `at`. Raises `SchemaError` if the message is in another
        file."""
        if descriptor.file.name != self._file.name:
            raise SchemaError(f"{descriptor.full_name} is in the file {descriptor.file.name}, to which it refers")
        found: list[int] = []
        outer = descriptor
        while outer is not None:
            inner, outer = outer, outer.containing_type
            names = self._file.message_types_by_name if outer is None else outer.nested_types_by_name
            found.insert(0, list(names).index(inner.name))
        return tuple(found)

    def class_of(self, descriptor: Any) -> Any:
        """Return the class of a message's objects."""
        return self._factory.GetMessageClass(descriptor)

    def _names(self) -> list[str]:
        return [each.full_name for each in self._file.message_types_by_name.values()]

    def _add(self, file: Any, waiting: dict[str, Any]) -> None:
        """Add a file to the pool, after the files that it imports."""
        for name in file.dependency:
            if name in waiting:
                self._add(waiting.pop(name), waiting)
            else:
                self._well_known(name)
        self._pool.Add(file)

    def _well_known(self, name: str) -> None:
        """Add a file of the Protobuf distribution, such as google/protobuf/timestamp.proto."""
        try:
            self._pool.FindFileByName(name)
        except KeyError:
            import importlib

            from google.protobuf.descriptor_pb2 import FileDescriptorProto

            if not (name.startswith("google/") and name.endswith(".proto")):
                raise SchemaError(f"it lacks the file {name}: give protoc --include_imports") from None
            try:
                module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
            except ImportError:
                raise SchemaError(f"it lacks the file {name}: give protoc --include_imports") from None
            file = FileDescriptorProto()
            module.DESCRIPTOR.CopyToProto(file)
            for inner in file.dependency:
                self._well_known(inner)
            self._pool.Add(file)


def types_of(schema: RegisteredSchema) -> ProtobufTypes:
    """Load the types of a registry's schema. Raises `SchemaError` if it is not a Protobuf schema."""
    return ProtobufTypes.of_set(descriptor_set(schema))


def descriptor_set(schema: RegisteredSchema) -> bytes:
    """Return a serialized descriptor set of a registry's schema and its references. Raises `SchemaError` if it is not a
    Protobuf schema."""
    if schema.kind != PROTOBUF:
        raise SchemaError(f"schema {schema.id} is {schema.kind}, not Protobuf")
    _runtime()
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    found = FileDescriptorSet()
    for name, text in (*schema.references, ("", schema.text)):
        file = found.file.add()
        try:
            file.ParseFromString(base64.b64decode(text, validate=True))
        except Exception as error:  # errors of Protobuf's runtimes have no common base class
            raise SchemaError(f"schema {schema.id} is not a serialized file: {error}") from None
        file.name = name or file.name or f"schema-{schema.id}.proto"
    data: bytes = found.SerializeToString()
    return data


class ProtobufDecoder:
    """Decodes the bodies of a read as messages of one type."""

    def __init__(self, types: ProtobufTypes, descriptor: Any, registry: Registry | None = None) -> None:
        """With a registry, each body contains a schema id, and its message must have the name of `descriptor`."""
        self._class = types.class_of(descriptor)
        self._name: str = descriptor.full_name
        self._registry = registry
        self._checked: set[tuple[int | str, tuple[int, ...]]] = set()
        self._types = ParsedSchemas({PROTOBUF: types_of})

    def decode(self, body: bytes) -> Any:
        """Return the message of a body. Raises `UnfitBody` if it is invalid, and `RegistryError` if the registry
        fails."""
        if self._registry is not None:
            written = self._registry.read(body)
            if (written.schema.id, written.message) not in self._checked:
                self._check(written)
            body = written.payload
        try:
            return self._class.FromString(body)
        except Exception as error:  # errors of Protobuf's runtimes have no common base class
            raise UnfitBody(f"it is not a valid {self._name} ({type(error).__name__}: {error})") from None

    def _check(self, written: FramedBody) -> None:
        found = self._types.of(written.schema).at(written.message).full_name
        if found != self._name:
            raise UnfitBody(f"it is a {found}, not a {self._name}")
        self._checked.add((written.schema.id, written.message))


def plain_of(descriptor: Any) -> Callable[[Any], dict[str, Any]]:
    """Return a function that converts a message to dictionaries, lists, and datetimes for Timestamps.

    An unset field is None if its type has presence (messages, `optional`, oneof), otherwise its default. Enums are
    names, or numbers if unknown. Raises `SchemaError` if a type contains itself.
    """
    return _message(descriptor, (), {})


Plain = Callable[[Any], Any]


def _message(descriptor: Any, above: tuple[str, ...], made: dict[str, Plain]) -> Plain:
    """Return the function that converts messages of a type. `made` caches the functions of nested types, which may
    occur several times."""
    name = descriptor.full_name
    if name in above or len(above) > MOST_NESTED:
        raise SchemaError(f"{name} contains itself, which is not a column's type")
    if name == "google.protobuf.Timestamp":
        return _moment
    if name in made:
        return made[name]
    fields = [
        (field.name, field.has_presence, is_many(field), _value(field, (*above, name), made))
        for field in descriptor.fields
    ]

    def plain(message: Any) -> dict[str, Any]:
        return {
            key: None if presence and not many and not message.HasField(key) else convert(getattr(message, key))
            for key, presence, many, convert in fields
        }

    made[name] = plain
    return plain


def is_many(field: Any) -> bool:
    """Return whether a field is repeated or a map."""
    repeated = getattr(field, "is_repeated", None)  # since Protobuf 6.30; later versions have no label
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def is_map(field: Any) -> bool:
    """Return whether a field is a map."""
    inner = field.message_type
    return inner is not None and bool(inner.GetOptions().map_entry)


def _value(field: Any, above: tuple[str, ...], made: dict[str, Plain]) -> Plain:
    if is_map(field):
        inner = _one(field.message_type.fields_by_name["value"], above, made)
        key = _one(field.message_type.fields_by_name["key"], above, made)
        return lambda values: {key(name): inner(value) for name, value in values.items()}
    one = _one(field, above, made)
    return (lambda values: [one(value) for value in values]) if is_many(field) else one


def _one(field: Any, above: tuple[str, ...], made: dict[str, Plain]) -> Plain:
    if field.message_type is not None:
        return _message(field.message_type, above, made)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number) or str(number)
    return _same


def _same(value: Any) -> Any:
    return value


def _moment(value: Any) -> Any:
    from datetime import UTC, datetime, timedelta

    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError:
        raise UnfitBody(f"it has a time of {value.seconds} s, which is beyond the year 9999") from None


def _runtime() -> tuple[Any, Any]:
    try:
        from google.protobuf import descriptor_pool, message_factory
    except ImportError:
        raise SchemaError("Protobuf needs its runtime on every machine: pip install protobuf") from None
    return descriptor_pool, message_factory
