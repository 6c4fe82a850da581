"""The permissions of a request's sender for objects that the handler finds by a position, an id or a list.

The authorizer checks the names in a request before the handler runs. Only the handler finds the topic of a record at a
position, so the authorizer attaches a `Permit` to the request, and the handler checks it through `bolide.broker.found`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Permit(Protocol):
    """The rights of the user who signed one request: the actions that the request's row declares as `found`."""

    @property
    def denial(self) -> int:
        """The response code of a rejection."""

    def refusal(self, topics: Iterable[str]) -> str | None:
        """Return why the user has permission for none of these topics, or None if one is allowed.

        Uses the current policies, not the policies at the time of the request's arrival.
        """
