"""What the store can be told: flush, recovery and retention settings of RocketMQ's MessageStoreConfig.

Sizes of files are not here but in `layout.shape.StoreShape`. The struct of all broker options carries fields of the
same names; `StoreOptions.from_options` copies them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from bolide.errors import ConfigError
from bolide.layout.limits import DEFAULT_MAX_MESSAGE_SIZE

IGNORED: Final[dict[str, str]] = {
    "transientStorePoolEnable": "writes go to the page cache at the end of each turn",
    "commitIntervalCommitLog": "there is no commit thread",
    "commitCommitLogLeastPages": "there is no commit thread",
    "commitCommitLogThoroughInterval": "there is no commit thread",
    "flushConsumeQueueLeastPages": "queues are written every interval and synced together at the thorough one",
    "duplicationEnable": "the log is never appended to from elsewhere",
    "totalReplicas": "this broker does not replicate yet",
    "slaveTimeout": "this broker does not replicate yet",
    "haSendHeartbeatInterval": "this broker does not replicate yet",
    "haHousekeepingInterval": "this broker does not replicate yet",
    "haTransferBatchSize": "this broker does not replicate yet",
    "haMaxGapNotInSync": "this broker does not replicate yet",
    "mapedFileSizeConsumeQueueExt": "the key is mappedFileSizeConsumeQueueExt",
}
"""Keys of Java's that change nothing here, with the reason: setting one of them earns a warning."""


@dataclass(frozen=True)
class StoreOptions:
    """Times are ms, sizes bytes, ratios percent unless a line says otherwise."""

    flush_disk_type: str = "SYNC_FLUSH"
    """SYNC_FLUSH or ASYNC_FLUSH. Java: ASYNC_FLUSH."""
    sync_flush_timeout: int = 5000
    flush_interval_commit_log: int = 500
    """Async flush: how often dirty pages are looked at."""
    flush_commit_log_timed: bool = True
    """False: an async flush also starts as soon as enough pages are dirty."""
    flush_commit_log_least_pages: int = 0
    """Async flush: fewer dirty pages wait for the thorough interval. Java: 4, so a loss of power can cost ten seconds
    when few messages are sent; with 0 every interval flushes what there is."""
    flush_commit_log_thorough_interval: int = 10_000
    flush_interval_consume_queue: int = 1000
    flush_consume_queue_thorough_interval: int = 60_000

    max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE
    check_crc_on_recover: bool = True
    commit_log_recover_max_num: int = 10
    check_commit_log_offset_on_recover: bool = False
    message_index_safe: bool = False
    index_file_write_enable: bool = True
    index_file_read_enable: bool = True

    delete_when: str = "04"
    """Hours of the day, local time, `;`-separated, in which expired files are deleted."""
    file_reserved_time: int = 72
    """Hours a commit log file is kept after its last change."""
    clean_resource_interval: int = 10_000
    clean_file_forcibly_enable: bool = True
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    delete_file_batch_max: int = 10

    access_message_in_memory_max_ratio: int = 40
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    max_filter_message_size: int = 16000
    default_query_max_num: int = 32
    max_msgs_num_batch: int = 64

    max_open_files: int = 1024
    """Handles kept open at once. Ours."""
    memory_bytes: int = 0
    """Memory of the machine, for accessMessageInMemoryMaxRatio; 0 = not known, every read counts as in memory. Ours."""

    def __post_init__(self) -> None:
        if self.flush_disk_type not in ("SYNC_FLUSH", "ASYNC_FLUSH"):
            raise ConfigError(f"flushDiskType is {self.flush_disk_type!r}: it must be SYNC_FLUSH or ASYNC_FLUSH")
        self.delete_hours()

    @property
    def sync_flush(self) -> bool:
        """True when a message is confirmed only once it is on disk."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def clean_forcibly_ratio(self) -> float:
        """0.0 to 1.0, in Java's bounds."""
        return min(85, max(30, self.disk_space_clean_forcibly_ratio)) / 100

    @property
    def warning_ratio(self) -> float:
        """0.0 to 1.0, in Java's bounds."""
        return min(90, max(35, self.disk_space_warning_level_ratio)) / 100

    def delete_hours(self) -> frozenset[int]:
        """The hours of `delete_when`; raises ConfigError when it is no list of hours."""
        hours: set[int] = set()
        for word in self.delete_when.split(";"):
            if not word.strip().isdecimal() or int(word) > 23:
                raise ConfigError(f"deleteWhen is {self.delete_when!r}: write hours such as 04 or 04;16")
            hours.add(int(word))
        return frozenset(hours)

    @classmethod
    def from_options(cls, options: object) -> StoreOptions:
        """Copy what `options` has under the same names."""
        values = {field.name: getattr(options, field.name) for field in fields(cls) if hasattr(options, field.name)}
        return cls(**values)


def warnings_for(conf: Mapping[str, str]) -> list[str]:
    """One sentence for each setting that is given a value here but has no effect."""
    warned: list[str] = []
    for key, reason in IGNORED.items():
        value = conf.get(key)
        if value is not None and value.strip().lower() != "false":
            warned.append(f"{key} is ignored: {reason}")
    on = [key for key in ("enableLmq", "enableMultiDispatch") if conf.get(key, "").strip().lower() == "true"]
    if len(on) == 1:
        warned.append(
            f"{on[0]} alone lets no message enter a light queue: enableLmq and enableMultiDispatch do together"
        )
    return warned
