"""Points in time as users write them: milliseconds since 1970, as RocketMQ counts them, or a datetime with a zone."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from bolide.client.messages.arguments import plain_number, shown
from bolide.errors import ArgumentError

Moment = float | datetime
"""Milliseconds since 1970, or a datetime with a time zone. Lengths of time are seconds."""

_SECONDS: Final = 100_000_000_000
"""Numbers below are seconds by mistake: as milliseconds they end in 1973, as seconds in the year 5138."""
_EXACT: Final = 2**53


def moment_ms(argument: str, moment: Moment, refusal: type[ArgumentError] = ArgumentError, words: str = "") -> int:
    """Milliseconds since 1970. Raises `refusal` for a datetime without a zone, for seconds, and for anything else.

    `words` are what else the argument may be, for the error.
    """
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise refusal(
                f"{argument} {moment.isoformat(sep=' ')} has no time zone: give a datetime with one, such as"
                " datetime.now(UTC), or milliseconds since 1970",
                argument,
            )
        moment = moment.timestamp() * 1000
    number = plain_number(moment)
    if number is None or not 0 <= number < _EXACT:
        raise refusal(
            f"{argument} is {shown(moment)}, which is not a time: give {words}milliseconds since 1970, or a"
            " datetime with a time zone",
            argument,
        )
    if 0 < number < _SECONDS:
        raise refusal(
            f"{argument} is {shown(moment)}, which as milliseconds since 1970 is before 1974: seconds must be"
            " multiplied by 1000",
            argument,
        )
    return round(number)
