"""The screen of `bolide top`: lines of text that fit a terminal, and the effects of keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from bolide.cli.cluster.cluster import rate
from bolide.cli.cluster.top_figures import ORDERS, GroupLine, Round
from bolide.cli.terminal.output import printable

HELP: Final = "q quit  s sort  / filter  p pause"
GAP: Final = "  "
BROKER_COLUMNS: Final = (("Broker", 0), ("Id", 3), ("Role", 12), ("Put/s", 10), ("Get/s", 10), ("State", 18))
"""The columns and their widths. A width of 0 is the remaining width."""
GROUP_COLUMNS: Final = (("Group", 0), ("Lag", 16), ("Lag/s", 12), ("Caught up in", 12))
RIGHT: Final = ("Id", "Put/s", "Get/s", "Lag", "Lag/s", "Caught up in")
BROKER_SHARE: Final = 3
"""Brokers use at most one `BROKER_SHARE`-th of the lines."""
BACKSPACE: Final = ("\x7f", "\b")
ENTER: Final = ("\n", "\r")
ESCAPE: Final = "\x1b"
_FIGURES: Final = ("putTps", "getTransferredTps")


@dataclass(slots=True)
class View:
    """The choices of the user."""

    order: str = ORDERS[0]
    part: str = ""
    paused: bool = False
    typing: bool = False
    ended: bool = False

    def press(self, key: str) -> None:
        """Handle a key. While the user types a filter, letters extend it, Enter applies it and Escape drops it."""
        if self.typing:
            self._type(key)
        elif key in ("q", "Q"):
            self.ended = True
        elif key == "s":
            self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        elif key == "p":
            self.paused = not self.paused
        elif key == "/":
            self.typing = True
        elif key == ESCAPE:
            self.part = ""

    def _type(self, key: str) -> None:
        if key in ENTER:
            self.typing = False
        elif key == ESCAPE:
            self.typing, self.part = False, ""
        elif key in BACKSPACE:
            self.part = self.part[:-1]
        elif key.isprintable():
            self.part += key


def picture(latest: Round | None, view: View, trouble: str, *, width: int, height: int) -> list[Text]:
    """Return exactly `height` lines of `width` cells. `trouble` is the error of the last round, or ""."""
    if latest is None:
        lines = [Text(fitted(trouble or "waiting for the first response", width), "red" if trouble else "dim")]
    else:
        lines = [_headline(latest, view, width)]
        if trouble:
            lines.append(Text(fitted(trouble, width), "red"))
        lines += _brokers(latest, width, max(height // BROKER_SHARE, 1))
        left = max(height - len(lines) - 2, 0)  # the title of the groups, and the foot
        lines += _groups(latest.slowest(view.order, left, view.part), width)
    lines = lines[: height - 1]
    lines += [Text(" " * width)] * (height - 1 - len(lines))
    return [*lines, _foot(view, width)]


def _headline(latest: Round, view: View, width: int) -> Text:
    put, get = (sum(rate(each.runtime.get(name)) or 0.0 for each in latest.brokers) for name in _FIGURES)
    when = datetime.fromtimestamp(latest.when).astimezone().strftime("%H:%M:%S")
    clusters = ", ".join(sorted({each.cluster for each in latest.brokers})) or "no broker"
    state = "  PAUSED" if view.paused else ""
    figures = f"put {put:,.0f}/s  get {get:,.0f}/s  lag {latest.lag:,}  {when}{state}"
    return Text(fitted(clusters, width - cell_len(figures) - len(GAP)) + GAP + figures, "bold")


def _brokers(latest: Round, width: int, most: int) -> list[Text]:
    # Unavailable brokers are first, because there may be more brokers than lines.
    ordered = sorted(latest.brokers, key=lambda each: (each.serves, each.broker_name, each.broker_id))
    lines = [_title(BROKER_COLUMNS, width)]
    for each in ordered[:most]:
        put, get = (rate(each.runtime.get(name)) for name in _FIGURES)
        cells = (each.broker_name, str(each.broker_id), each.role, _figure(put), _figure(get), each.state)
        lines.append(Text(_line(BROKER_COLUMNS, cells, width), "" if each.serves else "red"))
    if len(ordered) > most:
        lines.append(Text(fitted(f"and {len(ordered) - most} more brokers", width), "dim"))
    return lines


def _groups(shown: Sequence[GroupLine], width: int) -> list[Text]:
    lines = [_title(GROUP_COLUMNS, width)]
    for each in shown:
        grows = each.growth is not None and each.growth > 0 and each.lag > 0
        cells = (each.group, f"{each.lag:,}", _growth(each.growth), caught_up(each))
        lines.append(Text(_line(GROUP_COLUMNS, cells, width), "yellow" if grows else ""))
    return lines


def caught_up(line: GroupLine) -> str:
    """Return when the lag of a group reaches 0 at its current rate, or "never" if the lag does not shrink."""
    if not line.lag:
        return "now"
    if line.growth is None:
        return ""
    if line.growth >= 0:
        return "never"
    seconds = round(line.lag / -line.growth)
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours:,} h {minutes:02} min" if hours else f"{minutes} min" if minutes else f"{seconds} s"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


def _growth(value: float | None) -> str:
    return "" if value is None else f"{value:+,.1f}" if value else "0"


def _foot(view: View, width: int) -> Text:
    if view.typing:
        return Text(fitted(f"filter: {printable(view.part)}_  (Enter keeps it, Escape drops it)", width), "reverse")
    chosen = f"{GAP}by {view.order}" + (f"{GAP}filter: {printable(view.part)}" if view.part else "")
    return Text(fitted(HELP + chosen, width), "reverse")


def _title(columns: Sequence[tuple[str, int]], width: int) -> Text:
    return Text(_line(columns, [name for name, _ in columns], width), "bold underline")


def _line(columns: Sequence[tuple[str, int]], cells: Sequence[str], width: int) -> str:
    others = sum(each for _, each in columns) + len(GAP) * (len(columns) - 1)
    parts = []
    for (name, fixed), cell in zip(columns, cells, strict=True):
        room = fixed or max(width - others, 1)
        text = printable(cell)
        if name in RIGHT:
            text = " " * (room - cell_len(text)) + text
        parts.append(fitted(text, room))
    return fitted(GAP.join(parts), width)


def fitted(text: str, width: int) -> str:
    """Pad or truncate a text to exactly `width` cells. A truncated text ends with an ellipsis."""
    safe = printable(text)
    if width <= 0:
        return ""
    return set_cell_size(safe, width) if cell_len(safe) <= width else set_cell_size(safe, width - 1) + "…"
