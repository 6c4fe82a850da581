"""The shape of a store that a command names: from its broker.conf, else from its files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bolide.cli.terminal import output

if TYPE_CHECKING:
    from bolide.layout.shape import StoreShape


def store_shape(store: Path, config: Path | None, version: str | None) -> StoreShape:
    """From its broker.conf, else from its files' sizes and RocketMQ's defaults; wrong usage ends the program here."""
    from bolide.declaration import options_of
    from bolide.layout.shape import ShapeOptions, StoreShape
    from bolide.node.settings.config import read_conf
    from bolide.store.disk.files import RealFiles
    from bolide.store.offline.inspect import NoStore, shape_of

    wanted = None if version is None else StoreShape().with_version(version)
    try:
        # Existing files are not compared with a given broker.conf: they may be what is broken.
        shape = (
            shape_of(RealFiles(), str(store), None)
            if config is None
            else StoreShape.of(options_of(ShapeOptions, read_conf(str(config))))
        )
    except NoStore as error:
        output.fail(str(error), output.USAGE)
    return shape if wanted is None else shape.with_tags_in_index(wanted.tags_in_index)
