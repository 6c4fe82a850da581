"""A name server with its settings in a folder of the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bolide.namesrv.options import NamesrvOptions
from bolide.node.namesrv import NamesrvNode


def namesrv(folder: Path, port: int = 0, **settings: Any) -> NamesrvNode:
    return NamesrvNode(NamesrvOptions(listen_port=port, kv_config_path=str(folder / "kv.json"), **settings))
