"""Settings of transactions."""

from __future__ import annotations

from typing import Annotated, Final

from bolide.declaration import OURS, Count, DeclaredOptions, PositiveCount, PositiveMs, Section

TRANSACTIONS: Final = Section("Transactions")


class TransactionOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Checks and limits of half messages."""

    transaction_time_out: Annotated[
        PositiveMs, TRANSACTIONS("Age from which the producer of a half message is checked for its outcome.")
    ] = 6000
    transaction_check_interval: Annotated[PositiveMs, TRANSACTIONS("Time between checks of half messages.")] = 30_000
    transaction_check_max: Annotated[
        Count, TRANSACTIONS("Number of checks after which a half message is moved to TRANS_CHECK_MAX_TIME_TOPIC.")
    ] = 15
    max_open_transactions: Annotated[
        PositiveCount,
        TRANSACTIONS("Maximum number of pending half messages; further ones are rejected.", live=True, java=OURS),
    ] = 1_000_000
