"""The shape of a store that a command names: from its broker.conf, else from its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bolide.cli import output
from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.layout.shape import StoreShape


def store_shape(store: Path, config: Path | None, version: str | None) -> StoreShape:
    """From its broker.conf, else from its files' sizes and RocketMQ's defaults; wrong usage ends the program here."""
    from bolide.layout.shape import StoreShape
    from bolide.node.settings.config import read_conf
    from bolide.store.files import RealFiles
    from bolide.store.inspect import NoStore, shape_of

    if version not in (None, "5.5", "4.9"):
        raise ConfigError(f"--store-version {version} is neither 5.5 nor 4.9")
    try:
        # Existing files are not compared with a given broker.conf: they may be what is broken.
        shape = (
            shape_of(RealFiles(), str(store), None)
            if config is None
            else StoreShape.from_broker_conf(read_conf(str(config)))
        )
    except NoStore as error:
        output.fail(str(error), output.USAGE)
    return shape if version is None else replace(shape, store_version="4.9" if version == "4.9" else "5.5")
