"""Settings of pulls and of filters."""

from __future__ import annotations

from typing import Annotated, Final

from bolide.declaration import OURS, Bytes, DeclaredOptions, PositiveCount, PositiveMs, Section

FILTERS: Final = Section("Filters")
PULLS: Final = Section("Pulls")


class PullOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Long polling and responses of pulls."""

    long_polling_enable: Annotated[
        bool, PULLS("Hold a pull without result for as long as it requests; false: for shortPollingTimeMills.")
    ] = True
    short_polling_time_mills: Annotated[PositiveMs, PULLS("Time a pull is held without long polling.")] = 1000
    lite_pull_message_enable: Annotated[bool, PULLS("Accept LITE_PULL_MESSAGE (361).")] = True
    slave_read_enable: Annotated[
        bool, PULLS("A slave serves pulls; a master sends consumers that are far back to one.")
    ] = False
    offset_check_in_slave: Annotated[bool, PULLS("Correct offsets out of range on a slave as well.")] = False
    offset_moved_event_enable: Annotated[
        bool,
        PULLS("Store an event in OFFSET_MOVED_EVENT when a pull's offset is corrected, as 4.9 does.", java=OURS),
    ] = True
    use_server_side_reset_offset: Annotated[bool, PULLS("Keep a reset offset until its next pull uses it.")] = True
    max_held_requests: Annotated[
        PositiveCount,
        PULLS("Maximum number of held pulls; further pulls fail with FLOW_CONTROL.", live=True, java=OURS),
    ] = 100_000
    hold_sweep_interval: Annotated[
        PositiveMs, PULLS("Time between comparisons of every held pull with its queue.", java=OURS)
    ] = 5000
    max_cold_read_bytes: Annotated[
        Bytes,
        PULLS("Maximum memory of requests that wait for the disk; above it further requests are rejected.", java=OURS),
    ] = 256 * 1024 * 1024


class FilterOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Limits and retention of SQL92 filters."""

    enable_property_filter: Annotated[bool, FILTERS("Accept SQL92 filters.")] = False
    filter_support_retry: Annotated[
        bool, FILTERS("Filter retry topics by the expressions that first selected their messages.")
    ] = False
    filter_data_clean_time_span: Annotated[
        PositiveMs, FILTERS("Time after which a filter that its group no longer uses is removed.")
    ] = 24 * 3600 * 1000
    max_filter_length: Annotated[PositiveCount, FILTERS("Maximum number of characters in a filter.", java=OURS)] = (
        32_768
    )
    max_filter_operations: Annotated[
        PositiveCount, FILTERS("Maximum number of names, literals and operators in a SQL92 filter.", java=OURS)
    ] = 5_000
    max_consumer_filter_size: Annotated[
        PositiveCount,
        FILTERS(
            "Maximum characters of all registered filters, their topics and groups; each filter counts 256 more.",
            live=True,
            java=OURS,
        ),
    ] = 4 * 1024 * 1024
