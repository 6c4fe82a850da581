"""What a broker may ask a producer about: what the producer has left open, and what it ended too late."""

from typing import Any

from proof.interop.java_processes import Messages


def asked_while_open(checks: Messages, delivered: Messages) -> bool:
    """Whether each check was made before the broker took the end of its transaction, by the broker's own clock.

    To ask about one that its producer ended at once is right while that end is still on its way, on a slow machine.

    A commit is delivered with the time at which it was taken. A rollback leaves nothing to see: a producer's ends come
    in the order of its messages, so it was taken before the next commit.
    """
    taken = sorted((number(message), message["storeTimestamp"]) for message in delivered)

    def end_of(check: dict[str, Any]) -> int:
        return next((time for at, time in taken if at >= number(check)), 0)

    return all(check["storeTimestamp"] <= end_of(check) for check in checks)


def number(message: dict[str, Any]) -> int:
    """Which one of the transactions it is, by its key."""
    return int(message["keys"].removeprefix("tx-"))
