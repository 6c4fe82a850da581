"""Every target by name, in the order in which `make fuzz` runs them."""

from __future__ import annotations

from typing import Final

from proof.fuzz.target import Target
from proof.fuzz.targets import filters, frames, json_texts, layouts, ports, pulls, sends, settings, stores, tables

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for module in (frames, sends, pulls, ports, json_texts, layouts, stores, tables, filters, settings)
    for target in module.TARGETS
}
