"""Consumer groups as configured on this broker: the table of config/subscriptionGroup.json, and implicit creation.

Rules from RocketMQ's SubscriptionGroupManager (docs/protocol/behaviour.md 6.4), defaults in docs/protocol/remoting.md
12.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Final, final

import msgspec

from bolide.broker.core.effects import Effects
from bolide.broker.core.names import group_refusal, is_system_group
from bolide.broker.core.numbers import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, number
from bolide.broker.core.rows import Text
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.broker.tables.row_table import ConfigTable
from bolide.layout.limits import MAX_QUEUES
from bolide.layout.names import FIRST_GROUPS, LMQ_PREFIX
from bolide.remoting.codes import INVALID_PARAMETER, SYSTEM_ERROR
from bolide.remoting.json import parse_long

MAX_GROUP_SIZE: Final = 64 * 1024
"""Maximum size in bytes of one group's settings. Its retry policy and subscriptions may have any content."""
MADE_BY_USE: Final = "bolideMadeByUse"
"""A key that only Bolide writes to the file; Java ignores it."""
MAX_NAME: Final = 255
READ_INDEX: Final = 2
"""The bit of a forbidden topic that forbids reading (PermName.INDEX_PERM_READ)."""


@final
class SubscriptionGroupConfig:
    """Settings of one consumer group."""

    def __init__(self, group_name: str) -> None:
        self.group_name: str = group_name
        self.consume_enable: bool = True
        self.consume_from_min_enable: bool = True
        self.consume_broadcast_enable: bool = True
        self.consume_message_orderly: bool = False
        self.retry_queue_nums: int = 1
        self.retry_max_times: int = 16
        self.broker_id: int = 0
        self.which_broker_when_consume_slowly: int = 1
        self.notify_consumer_ids_changed_enable: bool = True
        self.group_sys_flag: int = 0
        self.consume_timeout_minute: int = 15
        self.group_retry_policy: dict[str, Any] = {"type": "CUSTOMIZED"}
        self.attributes: dict[str, str] = {}
        self.subscription_data_set: list[Any] | None = None
        """Subscriptions set by an administrator (5.x). They are stored, but have no effect."""

    @property
    def name(self) -> str:
        """Name of the group."""
        return self.group_name

    def to_json(self) -> dict[str, object]:
        """Return the fields under Java's names, in alphabetical order as in Java."""
        found: dict[str, object] = {
            "attributes": self.attributes,
            "brokerId": self.broker_id,
            "consumeBroadcastEnable": self.consume_broadcast_enable,
            "consumeEnable": self.consume_enable,
            "consumeFromMinEnable": self.consume_from_min_enable,
            "consumeMessageOrderly": self.consume_message_orderly,
            "consumeTimeoutMinute": self.consume_timeout_minute,
            "groupName": self.group_name,
            "groupRetryPolicy": self.group_retry_policy,
            "groupSysFlag": self.group_sys_flag,
            "notifyConsumerIdsChangedEnable": self.notify_consumer_ids_changed_enable,
            "retryMaxTimes": self.retry_max_times,
            "retryQueueNums": self.retry_queue_nums,
            "whichBrokerWhenConsumeSlowly": self.which_broker_when_consume_slowly,
        }
        if self.subscription_data_set is not None:
            found["subscriptionDataSet"] = self.subscription_data_set
        return found

    @staticmethod
    def from_json(name: str, fields: dict[str, Any], stored: bool = False) -> SubscriptionGroupConfig:
        """Read one entry of subscriptionGroup.json or the body of code 200. Missing fields get Java's defaults."""
        made = SubscriptionGroupConfig(str(fields.get("groupName") or name))
        made.consume_enable = bool(fields.get("consumeEnable", True))
        made.consume_from_min_enable = bool(fields.get("consumeFromMinEnable", True))
        made.consume_broadcast_enable = bool(fields.get("consumeBroadcastEnable", True))
        made.consume_message_orderly = bool(fields.get("consumeMessageOrderly", False))
        made.retry_queue_nums = number(fields, "retryQueueNums", 1, INT_MIN, MAX_QUEUES, stored)
        made.retry_max_times = number(fields, "retryMaxTimes", 16, INT_MIN, INT_MAX, stored)
        made.broker_id = number(fields, "brokerId", 0, LONG_MIN, LONG_MAX, stored)
        slow = number(fields, "whichBrokerWhenConsumeSlowly", 1, LONG_MIN, LONG_MAX, stored)
        made.which_broker_when_consume_slowly = slow
        made.notify_consumer_ids_changed_enable = bool(fields.get("notifyConsumerIdsChangedEnable", True))
        made.group_sys_flag = number(fields, "groupSysFlag", 0, INT_MIN, INT_MAX, stored)
        made.consume_timeout_minute = number(fields, "consumeTimeoutMinute", 15, INT_MIN, INT_MAX, stored)
        policy = fields.get("groupRetryPolicy")
        if isinstance(policy, dict):
            made.group_retry_policy = policy
        made.attributes = {str(key): str(value) for key, value in (fields.get("attributes") or {}).items()}
        subscriptions = fields.get("subscriptionDataSet")
        if isinstance(subscriptions, list):
            made.subscription_data_set = subscriptions
        return made


def check_size(config: SubscriptionGroupConfig) -> None:
    """Raise `Refused` 29 for settings that cannot be encoded or are too long."""
    try:
        size = len(msgspec.json.encode(config.to_json()))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Refused(
            INVALID_PARAMETER, f"the settings of group[{config.group_name}] cannot be stored: {error}"
        ) from None
    if size > MAX_GROUP_SIZE:
        text = f"the settings of group[{config.group_name}] have {size} bytes; at most {MAX_GROUP_SIZE} are allowed"
        raise Refused(INVALID_PARAMETER, text)


@final
class GroupTable(ConfigTable[SubscriptionGroupConfig]):
    """All consumer groups this broker has settings for, by name."""

    def __init__(self, options: BrokerOptions, effects: Effects, now: int) -> None:
        super().__init__("subscriptionGroup", effects, now, options.tables.max_groups)
        self.forbidden: dict[str, dict[str, int]] = {}
        self.made_by_use: set[str] = set()
        """Groups that no operator created and that have no state to keep (group_expiry.py)."""
        self._auto_create: bool = options.tables.auto_create_subscription_group
        self._lmq: bool = options.shape.enable_lmq
        for name in FIRST_GROUPS:
            self.table[name] = SubscriptionGroupConfig(name)
            self._rows.touch(name)

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._auto_create = options.tables.auto_create_subscription_group
        self._most = options.tables.max_groups

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the group's settings, or None. Never creates. A group of light queues (LMQ) has default settings."""
        found = self.table.get(group)
        if found is None and self._lmq and group.startswith(LMQ_PREFIX):
            return SubscriptionGroupConfig(group)
        return found

    def find(self, group: str, now: int) -> SubscriptionGroupConfig | None:
        """Return the group's settings, created with defaults if allowed, else None (code 26)."""
        found = self.get(group)
        if found is not None:
            return found
        if not (self._auto_create or is_system_group(group)) or group_refusal(group) is not None:
            return None
        found = SubscriptionGroupConfig(group)
        self.put(found, now)
        self.made_by_use.add(group)
        return found

    def keep(self, group: str) -> None:
        """Exempt a group from expiry because its retry topic has messages."""
        if group in self.made_by_use:
            self.made_by_use.discard(group)
            self._effects.persist(self.persist_name)

    def put(self, config: SubscriptionGroupConfig, now: int) -> None:
        """Create or replace a group's settings and persist them. Raises `Refused` 1 if the limit is reached."""
        if self._lmq and config.group_name.startswith(LMQ_PREFIX):
            return
        if len(self.table) >= self._most and config.group_name not in self.table:
            name = config.group_name
            text = f"group[{name}] cannot be created: maxGroups is {self._most}; delete groups or raise it"
            raise Refused(SYSTEM_ERROR, text)
        self.table[config.group_name] = config
        self.made_by_use.discard(config.group_name)
        self._rows.touch(config.group_name)
        self.data_version.next(now)
        self._effects.persist(self.persist_name)

    def follow(self, configs: Iterable[SubscriptionGroupConfig]) -> int:
        """Apply these groups of the master. Return how many exceeded the limit. Call `followed` afterwards."""
        return self.take(configs)

    def taken(self, config: SubscriptionGroupConfig) -> None:
        """Called with each group of the master that was new or different here."""
        self.made_by_use.discard(config.name)

    def followed(
        self, names: Container[str], forbidden: dict[str, dict[str, int]] | None, version: Mapping[str, Any]
    ) -> None:
        """Remove groups that the master lacks, and adopt its version.

        `forbidden` is None if the master does not support it (4.9).
        """
        gone = [name for name in self.table if name not in names and name not in FIRST_GROUPS]
        self.made_by_use.difference_update(gone)
        if forbidden is not None:
            self.forbidden = forbidden
        self.take_version(gone, version)

    def delete(self, group: str, now: int) -> bool:
        """Remove a group's settings and its forbidden topics. Return False if it had neither."""
        known = self.table.pop(group, None) is not None
        forbidden = self.forbidden.pop(group, None) is not None  # may exist without the group
        if not (known or forbidden):
            self.repeated()  # the file may still have it
            return False
        self.made_by_use.discard(group)
        self._rows.touch(group)
        self.data_version.next(now)
        self._effects.persist(self.persist_name)
        return True

    def may_read(self, group: str, topic: str) -> bool:
        """Return False if the group is forbidden to read this topic (5.x)."""
        return self.forbidden.get(group, {}).get(topic, 0) & 1 << READ_INDEX == 0

    def forbid_read(self, group: str, topic: str, forbidden: bool, now: int) -> None:
        """Forbid or allow a group to read a topic, and persist it. Raises `Refused` if the limit is reached."""
        if forbidden and topic not in self.forbidden.get(group, {}):
            if max(len(group), len(topic)) > MAX_NAME:
                raise Refused(INVALID_PARAMETER, f"a group or topic has {MAX_NAME} characters at most")
            if sum(map(len, self.forbidden.values())) >= self._most:
                raise Refused(SYSTEM_ERROR, f"{self._most} topics are forbidden to groups, as many as maxGroups")
        topics = self.forbidden.setdefault(group, {})
        bits = topics.get(topic, 0)
        topics[topic] = bits | 1 << READ_INDEX if forbidden else bits & ~(1 << READ_INDEX)
        if topics[topic] == 0:
            del topics[topic]
        if not topics:
            del self.forbidden[group]
        self.data_version.next(now)
        self._effects.persist(self.persist_name)

    def add_members(self, text: Text) -> None:
        if self.made_by_use:
            text.member(MADE_BY_USE, msgspec.json.encode(sorted(self.made_by_use)))
        text.member("forbiddenTable", msgspec.json.encode(self.forbidden))
        text.rows("subscriptionGroupTable", self._rows.encoded())

    def load(self, data: bytes) -> None:
        """Load a stored subscriptionGroup.json."""
        stored: Any = parse_long(data)
        groups = (stored.get("subscriptionGroupTable") or {}).items()
        found = {
            str(name): SubscriptionGroupConfig.from_json(str(name), fields, True)
            for name, fields in groups
            if fields is not None
        }
        forbidden = {
            str(group): {str(topic): int(bits) for topic, bits in topics.items()}
            for group, topics in (stored.get("forbiddenTable") or {}).items()
        }
        made_by_use = [str(name) for name in stored.get(MADE_BY_USE) or () if str(name) in found]
        # The last step that can fail; nothing is changed before it.
        self.data_version.assign(stored.get("dataVersion") or {})
        self.table.update(found)
        for name in found:
            self._rows.touch(name)
        self.forbidden.update(forbidden)
        self.made_by_use.update(made_by_use)
