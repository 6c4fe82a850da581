"""Maximum lengths that the formats allow: RocketMQ's Validators, TopicValidator and MessageDecoder."""

from __future__ import annotations

from typing import Final

MAX_TOPIC_LENGTH: Final = 127
"""Maximum length of a topic in bytes and characters: its stored length is a signed byte."""
MAX_LONG_TOPIC_LENGTH: Final = 255
"""Maximum length of a %RETRY% or %DLQ% topic, whose name contains that of a group."""
MAX_GROUP_LENGTH: Final = 120
"""Maximum length of a group's name in characters."""
MAX_PROPERTIES_LENGTH: Final = 32767
"""Maximum length of a message's properties in bytes: their stored length is a signed int16."""
MAX_EXT_UNIT_SIZE: Final = 32767
"""Maximum size of a ConsumeQueueExt unit in bytes: it is stored as a signed int16."""
INT16_MAX: Final = 32767
"""Maximum of any other length that is stored as a signed int16."""
DEFAULT_MAX_MESSAGE_SIZE: Final = 4 * 1024 * 1024
"""Default maximum length of a body in bytes, for brokers (maxMessageSize) and clients."""
MAX_QUEUES: Final = 65_536
"""Maximum number of queues of a topic. Java has no limit. A route and an offset table of this size are harmless."""
MAX_FOUND: Final = 64
"""Default maximum number of messages that a broker returns for one key (maxMsgsNumBatch)."""
