"""Which registry an address names: one with Confluent's API, or one that a user's factory makes."""

from __future__ import annotations

import importlib
from functools import lru_cache

from bolide.bodies.confluent import ConfluentRegistry
from bolide.bodies.registry import Registry, RegistryAddress, RegistryError


@lru_cache(maxsize=32)
def registry_at(where: RegistryAddress) -> Registry:
    """The registry of this address; one for each address and process, since it caches schemas.

    A factory takes no arguments. Raises RegistryError.
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
    except Exception as error:  # the factory is the user's: whatever it raises means that there is no registry
        raise RegistryError(f"the registry {where.address} cannot be made: {type(error).__name__}: {error}") from error
    return made
