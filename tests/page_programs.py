"""Loads and runs the programs of the pages."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
from pathlib import Path
from typing import Any

from bolide.testing.broker import Broker
from proof.kit.waiting import PROCESS_PATIENCE

PROGRAMS = Path(__file__).parent.parent / "docs" / "programs"


def program(name: str) -> Any:
    """A program as a module, its `main` not run."""
    spec = importlib.util.spec_from_file_location(f"docs_program_{name}", PROGRAMS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, broker: Broker) -> None:
    """Call a program's `main` with the broker's address, for at most a minute."""
    main = program(name).main
    if inspect.iscoroutinefunction(main):
        asyncio.run(asyncio.wait_for(main(broker.namesrv_addr), PROCESS_PATIENCE))
    else:
        main(broker.namesrv_addr)
