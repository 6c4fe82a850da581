"""Points in time as users write them: milliseconds since 1970, as in RocketMQ, or a datetime with a zone."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from bolide.client.messages.arguments import plain_number, shown
from bolide.errors import ArgumentError

Moment = float | datetime
"""Milliseconds since 1970, or a datetime with a time zone. Durations are in seconds."""

_SECONDS: Final = 100_000_000_000
"""Smaller numbers are rejected, because they are probably seconds: this number is in 1973 as milliseconds, and in the
year 5138 as seconds."""
_EXACT: Final = 2**53


def moment_ms(argument: str, moment: Moment, refusal: type[ArgumentError] = ArgumentError, words: str = "") -> int:
    """Return the milliseconds since 1970.

    Raises `refusal` for a datetime without a zone, a number of seconds, or another invalid value. `words` names the
    other allowed values of the argument in the error.
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
