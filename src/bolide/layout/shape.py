"""StoreShape: all settings that determine a store's files, such as sizes, slots, delay table, bloom and index rules.

No reader guesses them: every reader gets the store's broker.conf. `ShapeOptions` declares the settings, `StoreShape`
contains the values computed from them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

from msgspec import Meta

from bolide.declaration import OURS, DeclaredOptions, PositiveCount, Section, check_value, settings_of
from bolide.errors import ConfigError
from bolide.layout.bloom import BloomFilter
from bolide.layout.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from bolide.layout.ext_unit import END_BLANK_SIZE, MIN_UNIT_SIZE
from bolide.layout.limits import MAX_EXT_UNIT_SIZE
from bolide.layout.queue_unit import UNIT_SIZE

StoreVersion = Literal["5.5", "4.9"]
_INT_MAX: Final = 0x7FFFFFFF
FILES: Final = Section("Files of the store")
DELAYS: Final = Section("Delays")
INDEX: Final = Section("Index")
LIGHT_QUEUES: Final = Section("Light queues")


class ShapeOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Settings that determine the bytes of a store's files."""

    mapped_file_size_commit_log: Annotated[
        int, Meta(ge=256, le=_INT_MAX, extra={"unit": "bytes"}), FILES("Size of a log file.")
    ] = 1 << 30
    mapped_file_size_consume_queue: Annotated[
        int,
        Meta(ge=UNIT_SIZE, le=_INT_MAX, extra={"unit": "bytes"}),
        FILES("Size of a queue file, rounded up to whole entries of 20 bytes."),
    ] = 300_000 * UNIT_SIZE
    enable_consume_queue_ext: Annotated[
        bool, FILES("Keep queue extension files, which hold the filter bitmaps of messages.")
    ] = False
    mapped_file_size_consume_queue_ext: Annotated[
        int, Meta(ge=1, le=_INT_MAX, extra={"unit": "bytes"}), FILES("Size of a queue extension file.")
    ] = 48 * 1024 * 1024
    enable_calc_filter_bit_map: Annotated[
        bool, FILES("Compute at dispatch which registered SQL92 filters a message passes.")
    ] = False
    expect_consumer_num_use_filter: Annotated[
        PositiveCount, FILES("Consumer groups with filters per topic for which a bitmap has room.")
    ] = 32
    max_error_rate_of_bloom_filter: Annotated[
        int, Meta(ge=1, le=99, extra={"unit": "percent"}), FILES("Share of false hits that a bitmap may give.")
    ] = 20
    enabled_append_prop_crc: Annotated[bool, FILES("Append a checksum of each message's properties to them.")] = False
    force_verify_prop_crc: Annotated[
        bool, FILES("Treat a record whose properties lack a correct checksum as damaged.")
    ] = False
    store_version: Annotated[
        StoreVersion,
        FILES(
            "Whose derived files are written: 4.9 has no index entries for tags and one number per op record.",
            java=OURS,
        ),
    ] = "5.5"
    max_hash_slot_num: Annotated[
        int,
        Meta(ge=1, le=_INT_MAX),
        INDEX("Number of hash slots of an index file. Do not change it for an existing store."),
    ] = 5_000_000
    max_index_num: Annotated[
        int,
        Meta(ge=2, le=_INT_MAX),
        INDEX("Number of entries of an index file. Do not change it for an existing store."),
    ] = 20_000_000
    message_index_enable: Annotated[bool, INDEX("Keep an index by message key.")] = True
    message_delay_level: Annotated[
        str, DELAYS("Delays of level 1, 2 and so on, each a whole number and `s`, `m`, `h` or `d`.")
    ] = DEFAULT_DELAY_LEVELS
    enable_lmq: Annotated[
        bool,
        LIGHT_QUEUES(
            "Topics and groups called `%LMQ%…` exist without being created; their offsets have their own file."
        ),
    ] = False
    enable_multi_dispatch: Annotated[
        bool, LIGHT_QUEUES("With `enableLmq`: messages also enter the light queues listed in `INNER_MULTI_DISPATCH`.")
    ] = False


_DEFAULT: Final = ShapeOptions()
_SETTINGS: Final = settings_of(ShapeOptions)


@dataclass(frozen=True)
class StoreShape:
    """Sizes and formats of the files of a store. Sizes are in bytes, times in ms. The defaults are RocketMQ's."""

    commit_log_segment_size: int = _DEFAULT.mapped_file_size_commit_log
    consume_queue_segment_size: int = _DEFAULT.mapped_file_size_consume_queue
    consume_queue_ext_segment_size: int = _DEFAULT.mapped_file_size_consume_queue_ext
    index_slots: int = _DEFAULT.max_hash_slot_num
    index_entries: int = _DEFAULT.max_index_num
    delay_levels_ms: tuple[int, ...] = parse_delay_levels(_DEFAULT.message_delay_level)
    enable_consume_queue_ext: bool = _DEFAULT.enable_consume_queue_ext
    enable_calc_filter_bit_map: bool = _DEFAULT.enable_calc_filter_bit_map
    bloom_error_rate: int = _DEFAULT.max_error_rate_of_bloom_filter
    """Error rate of the Bloom filter in percent."""
    bloom_expected: int = _DEFAULT.expect_consumer_num_use_filter
    store_version: StoreVersion = _DEFAULT.store_version
    """Version of the derived files. Read the properties below instead."""
    append_property_crc: bool = _DEFAULT.enabled_append_prop_crc
    verify_property_crc: bool = _DEFAULT.force_verify_prop_crc
    index_enabled: bool = _DEFAULT.message_index_enable
    multi_dispatch: bool = _DEFAULT.enable_lmq and _DEFAULT.enable_multi_dispatch
    """Whether records are also dispatched to their light queues (LMQ): enableLmq and enableMultiDispatch."""

    def __post_init__(self) -> None:
        check_value(_SETTINGS["mappedFileSizeCommitLog"], self.commit_log_segment_size)
        check_value(_SETTINGS["mappedFileSizeConsumeQueue"], self.consume_queue_segment_size)
        check_value(_SETTINGS["maxHashSlotNum"], self.index_slots)
        check_value(_SETTINGS["maxIndexNum"], self.index_entries)
        check_value(_SETTINGS["storeVersion"], self.store_version)
        if self.consume_queue_segment_size % UNIT_SIZE:
            raise ConfigError(
                f"mappedFileSizeConsumeQueue = {self.consume_queue_segment_size} is not allowed: it must be a multiple "
                f"of {UNIT_SIZE}"
            )
        unit = MIN_UNIT_SIZE + self.bloom.bits // 8
        if unit > MAX_EXT_UNIT_SIZE:
            raise ConfigError(
                f"expectConsumerNumUseFilter = {self.bloom_expected} is not allowed: its bitmap does not fit into "
                f"{MAX_EXT_UNIT_SIZE} bytes"
            )
        if not unit + END_BLANK_SIZE <= self.consume_queue_ext_segment_size <= _INT_MAX:
            raise ConfigError(
                f"mappedFileSizeConsumeQueueExt = {self.consume_queue_ext_segment_size} is not allowed: it must be a "
                f"whole number from {unit + END_BLANK_SIZE} to {_INT_MAX} (bytes)"
            )

    @property
    def bloom(self) -> BloomFilter:
        """The Bloom filter of the bitmaps in extension units."""
        return BloomFilter.of(self.bloom_error_rate, self.bloom_expected)

    @property
    def tags_in_index(self) -> bool:
        """Whether tagged messages get an index entry ``topic#T#tags``."""
        return self.store_version != "4.9"

    @property
    def queue_end_in_checkpoint(self) -> bool:
        """Whether the checkpoint contains the physical offset up to which queues are flushed (logicsPhysicalOffset)."""
        return self.store_version != "4.9"

    @property
    def halves_per_op_record(self) -> bool:
        """Whether one op record of a transaction may name several half messages."""
        return self.store_version != "4.9"

    def with_version(self, version: str) -> StoreShape:
        """Return the same shape with the derived files of this storeVersion. Raises `ConfigError`."""
        check_value(_SETTINGS["storeVersion"], version)
        return self.with_tags_in_index(version != "4.9")

    def with_tags_in_index(self, tags: bool) -> StoreShape:
        """Return the same shape, with the version that has index entries for tags or the version without them."""
        return replace(self, store_version="5.5" if tags else "4.9")

    @classmethod
    def of(cls, options: ShapeOptions) -> StoreShape:
        """Compute the shape from the settings. Raises `ConfigError` if they conflict."""
        return cls(
            commit_log_segment_size=options.mapped_file_size_commit_log,
            # RocketMQ rounds the setting up to whole units.
            consume_queue_segment_size=-(-options.mapped_file_size_consume_queue // UNIT_SIZE) * UNIT_SIZE,
            consume_queue_ext_segment_size=options.mapped_file_size_consume_queue_ext,
            index_slots=options.max_hash_slot_num,
            index_entries=options.max_index_num,
            delay_levels_ms=parse_delay_levels(options.message_delay_level),
            enable_consume_queue_ext=options.enable_consume_queue_ext,
            enable_calc_filter_bit_map=options.enable_calc_filter_bit_map,
            bloom_error_rate=options.max_error_rate_of_bloom_filter,
            bloom_expected=options.expect_consumer_num_use_filter,
            store_version=options.store_version,
            append_property_crc=options.enabled_append_prop_crc,
            verify_property_crc=options.force_verify_prop_crc,
            index_enabled=options.message_index_enable,
            multi_dispatch=options.enable_lmq and options.enable_multi_dispatch,
        )
