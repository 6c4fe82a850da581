"""Lengths that the formats allow: RocketMQ's Validators, TopicValidator and MessageDecoder."""

from __future__ import annotations

from typing import Final

MAX_TOPIC_LENGTH: Final = 127
"""Maximum length of a topic in bytes and characters: its stored length is a signed byte."""
MAX_LONG_TOPIC_LENGTH: Final = 255
"""Maximum length of a %RETRY% or %DLQ% topic, whose name contains that of a group."""
MAX_GROUP_LENGTH: Final = 120
"""Characters of a group's name."""
MAX_PROPERTIES_LENGTH: Final = 32767
"""Bytes of a message's properties text: its stored length is a signed int16."""
MAX_EXT_UNIT_SIZE: Final = 32767
"""Bytes of a unit of ConsumeQueueExt: its size is a signed int16."""
INT16_MAX: Final = 32767
"""Any other length that is stored as a signed int16."""
DEFAULT_MAX_MESSAGE_SIZE: Final = 4 * 1024 * 1024
"""Default maximum length of a body in bytes, for brokers (maxMessageSize) and clients."""
