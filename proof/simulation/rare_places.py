"""Rare places: decisions of the product that few runs reach, counted, so that a campaign that missed one says so.

The product's log records show most of them; an observer of the run calls `reached` for the others. A killed process
logs nothing, so its last steps are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

LEAST: Final = 20
"""Times that a long campaign must have reached each place."""
LONG: Final = 1_000
"""Number of seeds with damaged members, or with attackers, that make a campaign a long one for their places."""


class Place(NamedTuple):
    """A place that a log record shows."""

    name: str
    texts: tuple[str, ...]
    """One of them is part of the record."""
    once: bool = True
    """Count one record for each start of a process: it repeats the record while the reason lasts."""


FULL_STOP: Final = "an election after a full stop waits for members"
FORMER: Final = "another member is elected before an elected one takes office"
LOGGED: Final = (
    Place("a replica refuses to truncate its log", ("truncate its log by bolide store truncate",)),
    Place("a replica finds other bytes in its master's log", ("although their epochs agree up to",)),
    Place("a replica truncates its log", ("truncating this log from",), once=False),
    Place("a master resigns because its disk hangs", ("this master resigns, because its disk hangs",), once=False),
    Place("a copy of a store is refused", ("last registered from another start", "cannot be it: stop one of them")),
    Place(
        "a damaged record is refused in replication", ("is damaged and is not sent", "is damaged and is not appended")
    ),
)
LIAR_REFUSED: Final = {
    port: f"an attacker is rejected at the port of a {port}" for port in ("controller", "name server", "broker", "log")
}
LIAR_FOLLOWED: Final = "a replica takes an attacker for its master"
MEMBER_PLACES: Final = (FULL_STOP, FORMER, *(place.name for place in LOGGED))
"""Places that a campaign with damaged members must reach."""
LIAR_PLACES: Final = (*LIAR_REFUSED.values(), LIAR_FOLLOWED)
"""Places that a campaign with attackers must reach."""
PLACES: Final = (*MEMBER_PLACES, *LIAR_PLACES)


class RarePlaces:
    """The places that one run reached."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._seen: set[tuple[str, str]] = set()

    def reached(self, place: str, once: str = "") -> None:
        """Count a place; with `once` only the first time that this text is given for it."""
        if once:
            if (place, once) in self._seen:
                return
            self._seen.add((place, once))
        self.counts[place] += 1

    def logged(self, process: str, text: str) -> None:
        """Count the places that a log record shows; `process` names one start of the process that logged it."""
        for place in LOGGED:
            if any(part in text for part in place.texts):
                self.reached(place.name, process if place.once else "")


def table(counts: Mapping[str, int]) -> str:
    """Return one line per place, with its count."""
    return "\n".join(f"  {counts.get(place, 0):6}  {place}" for place in PLACES)


def rarest(counts: Mapping[str, int], places: Iterable[str]) -> str:
    """Return the count and the name of the place that was reached the fewest times, or "" without places."""
    place = min(places, key=lambda place: counts.get(place, 0), default=None)
    return "" if place is None else f"{counts.get(place, 0)} times {place}"


def to_reach(members: int, attacked: int) -> tuple[str, ...]:
    """Return the places that a campaign with these numbers of seeds must reach."""
    return MEMBER_PLACES * (members >= LONG) + LIAR_PLACES * (attacked >= LONG)


def too_rare(counts: Mapping[str, int], least: int, places: Iterable[str] = PLACES) -> str:
    """Return a sentence that names the places below `least`, or "" if no place is."""
    missed = [f'"{place}" {counts.get(place, 0)}' for place in places if counts.get(place, 0) < least]
    return f"rare places were reached fewer than {least} times: {', '.join(missed)}" if missed else ""
