"""Determines the shape of the store of a command from its broker.conf, else from its files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bolide.cli.terminal import output

if TYPE_CHECKING:
    from bolide.layout.shape import StoreShape


def store_shape(store: Path, config: Path | None, version: str | None) -> StoreShape:
    """Return the shape from a broker.conf, else from the sizes of the files and RocketMQ's defaults. Ends the program
    if the usage is wrong."""
    from bolide.declaration import options_of
    from bolide.layout.shape import ShapeOptions, StoreShape
    from bolide.node.settings.config import read_conf
    from bolide.store.disk.files import RealFiles
    from bolide.store.offline.inspect import NoStore, shape_of

    wanted = None if version is None else StoreShape().with_version(version)
    try:
        # Do not compare existing files with a given broker.conf: the files may be damaged.
        shape = (
            shape_of(RealFiles(), str(store), None)
            if config is None
            else StoreShape.of(options_of(ShapeOptions, read_conf(str(config))))
        )
    except NoStore as error:
        output.fail(str(error), output.USAGE)
    return shape if wanted is None else shape.with_tags_in_index(wanted.tags_in_index)
