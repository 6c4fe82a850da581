"""What broker.conf says about a store."""

from __future__ import annotations

import pickle

import pytest

from bolide.declaration import options_of
from bolide.errors import ConfigError
from bolide.layout.shape import ShapeOptions, StoreShape


def test_defaults_are_rocketmqs() -> None:
    shape = StoreShape.of(options_of(ShapeOptions, {}))
    assert shape == StoreShape()
    assert shape.consume_queue_segment_size == 6_000_000
    assert len(shape.delay_levels_ms) == 18
    assert shape.delay_levels_ms[17] == 7_200_000
    assert (shape.bloom.hashes, shape.bloom.bits) == (3, 112)
    assert shape.tags_in_index
    assert pickle.loads(pickle.dumps(shape)) == shape


def test_keys_of_broker_conf() -> None:
    shape = StoreShape.of(
        options_of(
            ShapeOptions,
            {
                "mappedFileSizeCommitLog": "1048576",
                "mappedFileSizeConsumeQueue": "2001",
                "mappedFileSizeConsumeQueueExt": "8192",
                "maxHashSlotNum": "200",
                "maxIndexNum": "400",
                "messageDelayLevel": "1s 2m 3h 1d",
                "enableConsumeQueueExt": "true",
                "enableCalcFilterBitMap": "TRUE",
                "storeVersion": "4.9",
                "messageIndexEnable": "false",
                "brokerName": "not ours",
            },
        )
    )
    assert shape.consume_queue_segment_size == 2020, "Java rounds up to whole units"
    assert shape.delay_levels_ms == (1_000, 120_000, 10_800_000, 86_400_000)
    assert (shape.index_slots, shape.index_entries, shape.index_enabled) == (200, 400, False)
    assert shape.enable_consume_queue_ext
    assert shape.enable_calc_filter_bit_map
    assert not shape.tags_in_index


@pytest.mark.parametrize(
    ("conf", "sentence"),
    [
        ({"mappedFileSizeCommitLog": "x"}, r"mappedFileSizeCommitLog = 'x' is not allowed: it must be a whole number"),
        ({"mappedFileSizeCommitLog": "10"}, r"mappedFileSizeCommitLog = '10' is not allowed: .* from 256 to"),
        ({"maxIndexNum": "1"}, r"maxIndexNum = '1'"),
        ({"enableConsumeQueueExt": "yes"}, r"must be true or false"),
        ({"storeVersion": "5"}, r"storeVersion = '5' is not allowed: it must be 5.5 or 4.9"),
        ({"messageDelayLevel": "1s 2x"}, r"'2x' as level 2"),
        ({"maxErrorRateOfBloomFilter": "100"}, r"maxErrorRateOfBloomFilter = '100'"),
        ({"expectConsumerNumUseFilter": "0"}, r"expectConsumerNumUseFilter = '0'"),
        ({"mappedFileSizeConsumeQueueExt": "30"}, r"mappedFileSizeConsumeQueueExt = 30 is not allowed"),
    ],
)
def test_invalid_shape_is_rejected(conf: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        StoreShape.of(options_of(ShapeOptions, conf))
