"""Parses the schemas of a registry, each once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from bolide.bodies.registry import RegisteredSchema, SchemaError, UnfitBody

T = TypeVar("T")


class ParsedSchemas(Generic[T]):
    """Parsed schemas by id, because the schema of an id never changes. Errors of unusable schemas are also cached,
    because otherwise every body with such an id would parse its schema."""

    def __init__(self, parsers: Mapping[str, Callable[[RegisteredSchema], T]]) -> None:
        """Takes a parser for each kind of schema that bodies may have. It may raise `SchemaError`."""
        self._parsers = parsers
        self._parsed: dict[int | str, T] = {}
        self._unfit: dict[int | str, str] = {}

    def of(self, schema: RegisteredSchema) -> T:
        """Return a parsed schema. Raises `UnfitBody` if it is of another kind or cannot be used."""
        if schema.id in self._parsed:
            return self._parsed[schema.id]
        if schema.id not in self._unfit:
            parse = self._parsers.get(schema.kind)
            if parse is None:
                self._unfit[schema.id] = f"it is written with schema {schema.id}, which is {schema.kind}"
            else:
                try:
                    made = self._parsed[schema.id] = parse(schema)
                except SchemaError as error:
                    self._unfit[schema.id] = f"schema {schema.id} cannot be used: {error}"
                else:
                    return made
        raise UnfitBody(self._unfit[schema.id])
