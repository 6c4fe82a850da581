"""The result of the bench as a page: how many times better Bolide is, row by row, and what each message costs."""

from html import escape
from pathlib import Path
from typing import Any

from bench.report.drawn import LogScale, bar, line, page, svg, table, text
from bench.report.results import OURS, number, processor_time
from bench.report.shown import say

_WIDTH, _NAMES, _HEIGHT, _TOP = 960.0, 350.0, 20.0, 30.0
_LOW, _HIGH = 0.25, 16.0
_TICKS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_CLASSES = {OURS: "ours", "java": "other", "before": "before"}
_TITLES = {OURS: "Bolide", "java": "Java 5.5.0", "before": "the other commit"}


def write(text_of_page: str, file: Path) -> None:
    """Write a page. Its failure is told, and spoils nothing that was measured."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text_of_page, encoding="utf-8")
    except OSError as error:
        say(f"the page {file} cannot be written: {error.strerror}")
        return
    say(f"drawn in {file}")


def drawn(values: dict[str, Any]) -> str:
    """The page of a result, as `make bench` keeps it with `--json`."""
    servers = values["servers"]
    body = [f"<h1>Bolide beside {' and '.join(_TITLES[name] for name in servers if name != OURS) or 'itself'}</h1>"]
    told = f"{values['date']}, commit {values['commit']}, {values['rounds']} rounds, {values['minutes']:.0f} minutes"
    machine = ", ".join(f"{key} {value}" for key, value in values["machine"].items())
    body.append(f"<p>{escape(told)}. {escape(machine)}. Load before: {values['load_before']:.2f}. ")
    body.append(f"Command: <code>{escape(values['command'])}</code></p>")
    for name in servers:
        if name != OURS:
            body.append(f"<h2>How many times better than {_TITLES[name]}</h2>")
            body.append(
                "<p>Medians of the ratios within a round. For times and costs, how many times less. "
                "The orange mark is the goal.</p>"
            )
            body.append(_ratios(values["rows"], name))
    body.append("<h2>Processor time of the broker</h2>")
    body.append(
        "<p>Microseconds for each message (or what the row says), user in full colour, kernel in pale. "
        "Each row has a scale of its own.</p>"
    )
    keys = "".join(f'<span style="--c: var(--{_colour(name)})"></span>{_TITLES[name]}' for name in servers)
    body.append(f'<p class="key">{keys}</p>')
    body.append(_costs(values["rows"], servers))
    body.append("<h2>All figures</h2>")
    body.append(_figures(values["rows"], servers))
    return page("Bolide bench", "\n".join(body))


def _colour(name: str) -> str:
    return {"ours": "ours", "other": "other", "before": "third"}[_CLASSES[name]]


def _ratios(rows: list[dict[str, Any]], to: str) -> str:
    place = LogScale(_LOW, _HIGH, _NAMES, _WIDTH - 60)
    lines = [
        ((row["row"] if at == 0 else "") + (f", {one['unit']}" if len(row["compared"]) > 1 else ""), one)
        for row in rows
        for at, one in enumerate(row["compared"])
    ]
    bottom = _TOP + _HEIGHT * len(lines)
    parts = []
    for tick in _TICKS:
        parts.append(line(place(tick), _TOP - 6, place(tick), bottom, "one" if tick == 1 else "axis"))
        parts.append(text(place(tick), _TOP - 12, f"{tick:g}", "middle", "soft"))
    for at, (name, one) in enumerate(lines):
        y = _TOP + at * _HEIGHT
        parts.append(text(_NAMES - 14, y + 14, name.removeprefix(", "), "end"))
        ratio, goal = one["ratio"].get(to), one["goal"]
        if ratio:
            begin, end = sorted((place(1), place(ratio)))
            parts.append(bar(begin, y + 4, end - begin, _HEIGHT - 8, "ours"))
            parts.append(text(max(end, place(goal or 1)) + 6, y + 14, number(ratio)))
        else:
            parts.append(text(place(1) + 6, y + 14, "not measured", kind="soft"))
        if goal and to == "java":
            parts.append(line(place(goal), y + 2, place(goal), y + _HEIGHT - 2, "goal"))
    return svg(_WIDTH, bottom + 8, parts, f"ratios to {_TITLES[to]}")


def _costs(rows: list[dict[str, Any]], servers: list[str]) -> str:
    thick = 9.0
    step = thick * len(servers) + 9
    parts = []
    for at, row in enumerate(rows):
        y = 8 + at * step
        each = "" if row["each"] == "message" else f", a {row['each']}"
        parts.append(text(_NAMES - 20, y + step / 2 + 1, row["row"] + each, "end"))
        medians = {name: row["medians"].get(name, {}) for name in servers}
        parted = {name: _times(one) for name, one in medians.items()}
        room = (_WIDTH - _NAMES - 120) / (max(map(sum, parted.values()), default=0) or 1)
        for line_at, (name, one) in enumerate(medians.items()):
            user, kernel = parted[name]
            top = y + line_at * thick
            if user + kernel == 0:
                continue
            parts.append(bar(_NAMES, top, user * room, thick - 2, _CLASSES[name]))
            parts.append(bar(_NAMES + user * room, top, kernel * room, thick - 2, f"{_CLASSES[name]} kernel"))
            end = _NAMES + (user + kernel) * room + 6
            parts.append(text(end, top + thick - 1, processor_time(one), kind="soft"))
    return svg(_WIDTH, 16 + step * len(rows), parts, "processor time of each message")


def _figures(rows: list[dict[str, Any]], servers: list[str]) -> str:
    heads = ["row", "unit", *(_TITLES[name] for name in servers), "ratio", "goal"]
    heads.append("processor time, times less")
    heads += [f"{_TITLES[name]}: calls" for name in servers] + ["null server", "others' processors"]
    lines = []
    for row in rows:
        for at, one in enumerate(row["compared"]):
            medians = row["medians"]
            cells = [row["row"] if at == 0 else "", one["unit"]]
            cells += [number(medians.get(name, {}).get(one["figure"])) for name in servers]
            cells.append(" / ".join(number(value) for value in one["ratio"].values()))
            cells.append(number(one["goal"]))
            cells.append(" / ".join(number(value) for value in row["cost_ratio"].values()) if at == 0 else "")
            cells += [number(row["calls"].get(name)) if at == 0 else "" for name in servers]
            cells.append(number(row["ceiling"].get("rate")) if row["ceiling"] and at == 0 else "")
            cells.append(number(medians.get(OURS, {}).get("others")) if at == 0 else "")
            lines.append(cells)
    return table(heads, lines)


def _times(medians: dict[str, float | None]) -> tuple[float, float]:
    """User and kernel time; all of it as user time where the two were not told apart."""
    return medians.get("user_us") or medians.get("cpu_us") or 0.0, medians.get("system_us") or 0.0
