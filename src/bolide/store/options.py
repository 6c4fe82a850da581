"""Settings of the store: flush, recovery, reads and retention. Settings of file formats are in `layout/shape.py`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, structs

from bolide.declaration import (
    OURS,
    Bytes,
    Count,
    DeclaredOptions,
    Hours,
    Percent,
    PositiveBytes,
    PositiveCount,
    PositiveMs,
    Section,
)
from bolide.errors import ConfigError
from bolide.layout.limits import DEFAULT_MAX_MESSAGE_SIZE
from bolide.layout.shape import INDEX

FLUSH: Final = Section("Flush")
RECOVERY: Final = Section("Recovery")
RETENTION: Final = Section("Retention")
READS: Final = Section("Reads from the store")
SENDS: Final = Section("Sends")
SCRUB: Final = Section("Scrub")


class StoreOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Flush, recovery, reads and retention."""

    flush_disk_type: Annotated[
        Literal["ASYNC_FLUSH", "SYNC_FLUSH"],
        FLUSH("SYNC_FLUSH: a send is acknowledged once its record is on disk.", java="ASYNC_FLUSH"),
    ] = "SYNC_FLUSH"
    sync_flush_timeout: Annotated[
        PositiveMs, FLUSH("Maximum time a send waits for the disk. After it, the response is FLUSH_DISK_TIMEOUT.")
    ] = 5000
    flush_interval_commit_log: Annotated[PositiveMs, FLUSH("With ASYNC_FLUSH: time between flushes of the log.")] = 500
    flush_commit_log_timed: Annotated[
        bool, FLUSH("With ASYNC_FLUSH: flush at the interval only; false: also as soon as enough pages are dirty.")
    ] = True
    flush_commit_log_least_pages: Annotated[
        Count,
        FLUSH(
            "With ASYNC_FLUSH: fewer dirty pages wait for the thorough interval. With 0 each interval flushes what "
            "there is; with 4 a loss of power can cost ten seconds when few messages are sent.",
            java="4",
        ),
    ] = 0
    flush_commit_log_thorough_interval: Annotated[
        PositiveMs, FLUSH("With ASYNC_FLUSH: maximum time between flushes of the log, however few pages are dirty.")
    ] = 10_000
    flush_interval_consume_queue: Annotated[PositiveMs, FLUSH("Time between writes of the queues.")] = 1000
    flush_consume_queue_thorough_interval: Annotated[
        PositiveMs, FLUSH("Interval after which all queues are synced and the checkpoint advances.")
    ] = 60_000

    max_message_size: Annotated[
        int,
        Meta(ge=1, le=16 * 1024 * 1024 - 65536, extra={"unit": "bytes"}),
        SENDS("Largest body of a message or a batch."),
    ] = DEFAULT_MAX_MESSAGE_SIZE

    check_crc_on_recover: Annotated[bool, RECOVERY("Compare the checksum of each body that recovery reads.")] = True
    commit_log_recover_max_num: Annotated[
        PositiveCount, RECOVERY("Log files that a start after a clean stop reads at most.")
    ] = 10
    clean_start_check_size: Annotated[
        Bytes,
        RECOVERY(
            "Bytes at the end of the log that a start after a clean stop reads and checks; at most the newest file, "
            "which RocketMQ's broker reads completely.",
            java=OURS,
        ),
    ] = 64 * 1024 * 1024
    message_index_safe: Annotated[
        bool,
        RECOVERY("Start recovery where queues and index are both known to be on disk; false: where the queues are."),
    ] = False
    index_file_write_enable: Annotated[bool, INDEX("Write index entries for new messages.")] = True
    index_file_read_enable: Annotated[bool, INDEX("Use the index for queries by key.")] = True

    delete_when: Annotated[
        str,
        RETENTION("Hours of the day, local time, separated by `;`, in which expired files are deleted.", live=True),
    ] = "04"
    file_reserved_time: Annotated[
        Hours, RETENTION("Retention time of a log file after its last change.", live=True)
    ] = 72
    clean_resource_interval: Annotated[PositiveMs, RETENTION("Time between searches for expired files.", live=True)] = (
        10_000
    )
    clean_file_forcibly_enable: Annotated[
        bool,
        RETENTION("Delete the oldest files immediately while the disk is fuller than the forcible ratio.", live=True),
    ] = True
    disk_max_used_space_ratio: Annotated[
        int,
        Meta(ge=10, le=95, extra={"unit": "percent"}),
        RETENTION("Use of the disk above which expired files are deleted at any hour.", live=True),
    ] = 75
    disk_space_clean_forcibly_ratio: Annotated[
        Percent,
        RETENTION(
            "Disk usage in % above which the oldest files are deleted, and at which rejected sends are accepted "
            "again. Limited to 30 to 85.",
            live=True,
        ),
    ] = 85
    disk_space_warning_level_ratio: Annotated[
        Percent,
        RETENTION("Disk usage in % above which sends are rejected. Limited to 35 to 90.", live=True),
    ] = 90
    delete_file_batch_max: Annotated[
        PositiveCount, RETENTION("Maximum number of files deleted in one check.", live=True)
    ] = 10

    access_message_in_memory_max_ratio: Annotated[
        Percent, READS("Share of the host's memory that is assumed to contain the newest part of the log.")
    ] = 40
    max_transfer_bytes_on_message_in_memory: Annotated[
        Bytes, READS("Maximum bytes of messages in memory that one pull returns; a single message may be longer.")
    ] = 256 * 1024
    max_transfer_count_on_message_in_memory: Annotated[
        PositiveCount, READS("Maximum number of messages in memory that one pull returns.")
    ] = 32
    max_transfer_bytes_on_message_in_disk: Annotated[
        Bytes, READS("Maximum bytes of older messages that one pull returns.")
    ] = 64 * 1024
    max_transfer_count_on_message_in_disk: Annotated[
        PositiveCount, READS("Maximum number of older messages that one pull returns.")
    ] = 8
    bulk_pull_count: Annotated[
        PositiveCount,
        READS(
            "Messages one bulk pull returns. Spark's source and Bolide's consumers send bulk pulls. The limits above "
            "apply to all other pulls, also from RocketMQ's clients; a larger one also applies to bulk pulls.",
            java=OURS,
        ),
    ] = 1024
    bulk_pull_bytes: Annotated[
        Bytes, READS("Bytes one bulk pull returns; a single message may be longer.", java=OURS)
    ] = 1024 * 1024
    tail_cache_bytes: Annotated[
        Bytes,
        READS("Memory for the newest messages, from which consumers without lag are served; 0: no cache.", java=OURS),
    ] = 4 * 1024 * 1024
    max_filter_message_size: Annotated[
        int,
        Meta(ge=1, le=1 << 31, extra={"unit": "bytes"}),
        READS("Bytes of queue entries that one pull reads, but at least as many entries as it requests messages."),
    ] = 16000

    def __post_init__(self) -> None:
        super().__post_init__()
        self.delete_hours()

    @property
    def sync_flush(self) -> bool:
        """Whether messages are confirmed only once they are on disk."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def clean_forcibly_ratio(self) -> float:
        """`disk_space_clean_forcibly_ratio` as a fraction (0.0 to 1.0), limited to RocketMQ's bounds."""
        return min(85, max(30, self.disk_space_clean_forcibly_ratio)) / 100

    @property
    def warning_ratio(self) -> float:
        """`disk_space_warning_level_ratio` as a fraction (0.0 to 1.0), limited to RocketMQ's bounds."""
        return min(90, max(35, self.disk_space_warning_level_ratio)) / 100

    def for_bulk_pulls(self) -> StoreOptions:
        """Return a copy in which each limit of a pull is at least as large as the limit of a bulk pull."""
        count, size = self.bulk_pull_count, self.bulk_pull_bytes
        return structs.replace(
            self,
            max_transfer_bytes_on_message_in_memory=max(size, self.max_transfer_bytes_on_message_in_memory),
            max_transfer_count_on_message_in_memory=max(count, self.max_transfer_count_on_message_in_memory),
            max_transfer_bytes_on_message_in_disk=max(size, self.max_transfer_bytes_on_message_in_disk),
            max_transfer_count_on_message_in_disk=max(count, self.max_transfer_count_on_message_in_disk),
        )

    def delete_hours(self) -> frozenset[int]:
        """Return the hours of `delete_when`. Raises `ConfigError` if it is not a list of hours."""
        hours: set[int] = set()
        for word in self.delete_when.split(";"):
            if not word.strip().isdecimal() or int(word) > 23:
                raise ConfigError(
                    f"deleteWhen = {self.delete_when!r} is not allowed: it must be hours such as 04 or 04;16"
                )
            hours.add(int(word))
        return frozenset(hours)


class ScrubOptions(DeclaredOptions, frozen=True, kw_only=True):
    """The scrub, which reads the store in the background and reports damage."""

    scrub_enable: Annotated[
        bool, SCRUB("Read the store in the background and compare it with its checksums.", live=True, java=OURS)
    ] = True
    scrub_interval: Annotated[
        PositiveMs, SCRUB("Time from the start of a pass over the store to the next.", live=True, java=OURS)
    ] = 7 * 86_400_000
    scrub_max_bytes_per_second: Annotated[
        PositiveBytes, SCRUB("Maximum bytes that the scrub reads per second.", live=True, java=OURS)
    ] = 5_000_000
    scrub_max_cpu_percent: Annotated[
        int,
        Meta(ge=1, le=100, extra={"unit": "percent"}),
        SCRUB("Maximum share of one core that the scrub uses.", live=True, java=OURS),
    ] = 2


class Resources(Struct, frozen=True):
    """Resources of the host for a store. Not settings."""

    max_open_files: int = 1024
    """Maximum number of open handles."""
    memory_bytes: int = 0
    """Memory size for accessMessageInMemoryMaxRatio. 0: unknown, so all messages are assumed to be in memory."""
