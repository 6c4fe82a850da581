"""Returns the registry for an address: a registry with Confluent's API, or the result of a user's factory."""

from __future__ import annotations

import importlib
from functools import lru_cache

from bolide.bodies.confluent import ConfluentRegistry
from bolide.bodies.registry import Registry, RegistryAddress, RegistryError


@lru_cache(maxsize=32)
def registry_at(where: RegistryAddress) -> Registry:
    """Return the registry for an address, the same object for each call in a process, because it caches schemas.

    Calls a factory without arguments. Raises `RegistryError` if the address is invalid or the factory fails.
    """
    if where.address.lower().startswith(("http://", "https://")):
        return ConfluentRegistry(where)
    module, _, name = where.address.partition(":")
    if not module or not name.isidentifier():
        raise RegistryError(
            f"the registry {where.shown!r} is neither an address, such as http://registry:8081, nor"
            " package.module:factory"
        )
    try:
        made: Registry = getattr(importlib.import_module(module), name)()
    except Exception as error:  # any error of the user's factory means that there is no registry
        raise RegistryError(f"the registry {where.address} cannot be made: {type(error).__name__}: {error}") from error
    return made
