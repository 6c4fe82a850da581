"""StoreShape: everything about a store's files that is a setting: sizes, slots, delay table, bloom, index rules.

Nothing about a store is guessed: every reader gets its broker.conf. Keys and defaults: MessageStoreConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from bolide.errors import ConfigError
from bolide.layout.bloom import BloomFilter
from bolide.layout.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from bolide.layout.ext_unit import END_BLANK_SIZE, MIN_UNIT_SIZE
from bolide.layout.limits import MAX_EXT_UNIT_SIZE
from bolide.layout.queue_unit import UNIT_SIZE

StoreVersion = Literal["5.5", "4.9"]
_INT_MAX: Final = 0x7FFFFFFF


@dataclass(frozen=True)
class StoreShape:
    """Sizes are bytes, times milliseconds. The defaults are RocketMQ's."""

    commit_log_segment_size: int = 1024 * 1024 * 1024
    consume_queue_segment_size: int = 300_000 * UNIT_SIZE
    consume_queue_ext_segment_size: int = 48 * 1024 * 1024
    index_slots: int = 5_000_000
    index_entries: int = 20_000_000
    delay_levels_ms: tuple[int, ...] = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    enable_consume_queue_ext: bool = False
    enable_calc_filter_bit_map: bool = False
    bloom_error_rate: int = 20
    """Percent."""
    bloom_expected: int = 32
    store_version: StoreVersion = "5.5"
    """How derived files are written: 5.5 adds an index entry for the tags, 4.9 does not."""
    append_property_crc: bool = False
    verify_property_crc: bool = False
    index_enabled: bool = True
    multi_dispatch: bool = False
    """Records also enter the light queues (LMQ) they name: enableLmq and enableMultiDispatch together."""

    def __post_init__(self) -> None:
        _between("mappedFileSizeCommitLog", self.commit_log_segment_size, 256, _INT_MAX)
        _between("mappedFileSizeConsumeQueue", self.consume_queue_segment_size, UNIT_SIZE, _INT_MAX)
        if self.consume_queue_segment_size % UNIT_SIZE:
            raise ConfigError(
                f"mappedFileSizeConsumeQueue is {self.consume_queue_segment_size}: it must be a multiple of {UNIT_SIZE}"
            )
        _between(
            "mappedFileSizeConsumeQueueExt",
            self.consume_queue_ext_segment_size,
            MIN_UNIT_SIZE + self.bloom.bits // 8 + END_BLANK_SIZE,
            _INT_MAX,
        )
        if MIN_UNIT_SIZE + self.bloom.bits // 8 > MAX_EXT_UNIT_SIZE:
            raise ConfigError(
                f"expectConsumerNumUseFilter is {self.bloom_expected}: its bitmap does not fit into 32767 bytes"
            )
        _between("maxHashSlotNum", self.index_slots, 1, _INT_MAX)
        _between("maxIndexNum", self.index_entries, 2, _INT_MAX)
        if self.store_version not in ("5.5", "4.9"):
            raise ConfigError(f"storeVersion is {self.store_version!r}: it must be 5.5 or 4.9")

    @property
    def bloom(self) -> BloomFilter:
        """The filter whose bits the bitmaps of extension units hold."""
        return BloomFilter.of(self.bloom_error_rate, self.bloom_expected)

    @property
    def tags_in_index(self) -> bool:
        """True when tagged messages get an index entry ``topic#T#tags``."""
        return self.store_version != "4.9"

    @classmethod
    def from_broker_conf(cls, conf: Mapping[str, str]) -> StoreShape:
        """The shape of the store of a broker with this broker.conf (Java's keys; others are not looked at)."""
        default = cls()
        queue_size = _whole(conf, "mappedFileSizeConsumeQueue", default.consume_queue_segment_size)
        version = conf.get("storeVersion", default.store_version).strip()
        if version not in ("5.5", "4.9"):
            raise ConfigError(f"storeVersion is {version!r}: it must be 5.5 or 4.9")
        return cls(
            commit_log_segment_size=_whole(conf, "mappedFileSizeCommitLog", default.commit_log_segment_size),
            # Java rounds the setting up to whole units.
            consume_queue_segment_size=-(-queue_size // UNIT_SIZE) * UNIT_SIZE,
            consume_queue_ext_segment_size=_whole(
                conf, "mappedFileSizeConsumeQueueExt", default.consume_queue_ext_segment_size
            ),
            index_slots=_whole(conf, "maxHashSlotNum", default.index_slots),
            index_entries=_whole(conf, "maxIndexNum", default.index_entries),
            delay_levels_ms=parse_delay_levels(conf.get("messageDelayLevel", DEFAULT_DELAY_LEVELS)),
            enable_consume_queue_ext=_truth(conf, "enableConsumeQueueExt", False),
            enable_calc_filter_bit_map=_truth(conf, "enableCalcFilterBitMap", False),
            bloom_error_rate=_whole(conf, "maxErrorRateOfBloomFilter", default.bloom_error_rate),
            bloom_expected=_whole(conf, "expectConsumerNumUseFilter", default.bloom_expected),
            store_version="4.9" if version == "4.9" else "5.5",
            append_property_crc=_truth(conf, "enabledAppendPropCRC", False),
            verify_property_crc=_truth(conf, "forceVerifyPropCRC", False),
            index_enabled=_truth(conf, "messageIndexEnable", True),
            multi_dispatch=_truth(conf, "enableLmq", False) and _truth(conf, "enableMultiDispatch", False),
        )


def _between(key: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{key} is {value}: it must be {low} to {high}")


def _whole(conf: Mapping[str, str], key: str, default: int) -> int:
    text = conf.get(key)
    if text is None:
        return default
    try:
        return int(text.strip())
    except ValueError:
        raise ConfigError(f"{key} is {text!r}: it must be a whole number") from None


def _truth(conf: Mapping[str, str], key: str, default: bool) -> bool:
    text = conf.get(key)
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(f"{key} is {text!r}: it must be true or false")
    return word == "true"
