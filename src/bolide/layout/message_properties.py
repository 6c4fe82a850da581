"""The properties of one message before it is stored: as text, as a mapping, and the flags that the broker reads.

Most messages need only the text and one scan of it. The first change creates the mapping; the text is formatted again
only when it is next requested.
"""

from __future__ import annotations

from typing import Final, final

from bolide.layout import property_names as names
from bolide.layout.properties import format_properties, parse_properties, text_of

_UNIQ_KEY: Final = 1
_KEYS: Final = 2
_TAGS: Final = 3
_DELAY: Final = 4
_WAIT: Final = 5
_TRAN_MSG: Final = 6
_TIMER: Final = 7
_OURS: Final = 8
_MULTI: Final = 9
_MULTI_OFFSETS: Final = 10
_TIMER_OUT: Final = 11
_INNER: Final = 12
_SEEN: Final[dict[str, int]] = {
    names.UNIQ_KEY: _UNIQ_KEY,
    names.KEYS: _KEYS,
    names.TAGS: _TAGS,
    names.DELAY: _DELAY,
    names.WAIT: _WAIT,
    names.TRAN_MSG: _TRAN_MSG,
    names.TIMER_DELAY_SEC: _TIMER,
    names.TIMER_DELAY_MS: _TIMER,
    names.TIMER_DELIVER_MS: _TIMER,
    names.TIMER_OUT_MS: _TIMER_OUT,
    names.MSG_REGION: _OURS,
    names.TRACE_ON: _OURS,
    names.CLUSTER: _OURS,
    names.POP_CK: _OURS,
    names.INNER_NUM: _INNER,
    names.INNER_MULTI_DISPATCH: _MULTI,
    names.INNER_MULTI_QUEUE_OFFSET: _MULTI_OFFSETS,
    names.PRIORITY: _OURS,
}


def asking_names() -> list[str]:
    """Return the names by which a message can control the broker, or that the broker sets or removes itself."""
    return [name for name in _SEEN if name not in (names.UNIQ_KEY, names.KEYS, names.TAGS, names.WAIT)]


@final
class MessageProperties:
    """Properties of one message, given as text or as a mapping, which the object then owns and may change.

    `scan` sets the attributes below. An empty value in the mapping is stored, but read as absent.
    """

    def __init__(self, text: str, pairs: dict[str, str] | None = None) -> None:
        self._text: str = text
        self._pairs: dict[str, str] | None = pairs
        self._stale: bool = pairs is not None
        """Whether the mapping has changes that the text lacks."""
        self._scanned: bool = False
        self.uniq_key: str = ""
        self.keys: str = ""
        self.tags: str = ""
        self.delay: str = ""
        """The delay level as text, which may not be a number."""
        self.wait: bool = True
        """Whether the response waits for the disk and the replicas. False for WAIT=false."""
        self.transactional: bool = False
        self.timer: bool = False
        """Whether a delivery time is set."""
        self.timer_out: bool = False
        """Whether a timer has already accepted the message."""
        self.inner_batch: bool = False
        """Whether the body contains several messages, according to the properties."""
        self.multi: str = ""
        """The light queues (LMQ) the message enters, as listed."""
        self.multi_offsets: bool = False
        """Whether offsets in light queues are set."""
        self.rewrite: bool = False
        """Whether there are names that the broker sets or removes itself, or pairs that no reader accepts."""

    @property
    def text(self) -> str:
        """All properties in their stored form."""
        if self._stale:
            self._text = format_properties(self.pairs())
            self._stale = False
        return self._text

    def pairs(self) -> dict[str, str]:
        """Return all properties by name. Do not change the mapping: call `set` and `drop`."""
        pairs = self._pairs
        if pairs is None:
            pairs = self._pairs = parse_properties(self._text)
        return pairs

    def get(self, name: str) -> str | None:
        """Return the value of a property, or None if the message does not have it."""
        return self.pairs().get(name)

    def set(self, name: str, value: str) -> None:
        """Add a property, or replace its value."""
        self.pairs()[name] = value
        self._stale = True
        if self._scanned:
            kind = _SEEN.get(name, 0)
            if kind:
                self._see(kind, value)

    def drop(self, name: str) -> None:
        """Remove a property that the broker does not store, such as a delivery time, an offset or an internal mark."""
        pairs = self.pairs()
        if pairs.pop(name, None) is None:
            return
        self._stale = True
        kind = _SEEN.get(name, 0)
        if kind == _TIMER:
            self.timer = (
                names.TIMER_DELAY_SEC in pairs or names.TIMER_DELAY_MS in pairs or names.TIMER_DELIVER_MS in pairs
            )
        elif kind == _MULTI_OFFSETS:
            self.multi_offsets = False

    def normalize(self) -> None:
        """Mark the text as outdated, so that it is reformatted without the pairs that no reader accepts."""
        self.pairs()
        self._stale = True

    def terminate(self) -> None:
        """Append the final separator if the text lacks it: RocketMQ 4.9.3 to 4.9.8 omit it."""
        if self._text and not self._text.endswith("\x02"):
            self._text += "\x02"

    def append(self, text: str, pairs: dict[str, str]) -> None:
        """Add new properties, given as text and as a mapping. None of them may be a property that `scan` evaluates."""
        if not self._stale:
            self.terminate()
            self._text += text
        if self._pairs is not None:
            self._pairs.update(pairs)

    def extend(self, added: dict[str, str]) -> None:
        """Add properties or replace their values. None of them may be a property that `scan` evaluates. If all are new,
        they are appended to the text."""
        pairs = self.pairs()
        for name in added:
            if name in pairs:
                pairs.update(added)
                self._stale = True
                return
        self.append(format_properties(added), added)

    def add_uniq_key(self, key: str) -> None:
        """Set the UNIQ_KEY of a message that does not have one."""
        self.uniq_key = key
        if not self._stale:
            self.terminate()
            self._text = f"{self._text}UNIQ_KEY\x01{key}\x02"
        if self._pairs is not None:
            self._pairs[names.UNIQ_KEY] = key

    def scan(self) -> None:
        """Set the attributes on the first call. The last of several pairs with one name applies, as in Java."""
        if self._scanned:
            return
        self._scanned = True
        if self._pairs is not None:
            self._see_pairs(self._pairs)
        elif self._text:
            self._scan_text(self._text)

    def _see_pairs(self, pairs: dict[str, str]) -> None:
        for name, value in pairs.items():
            kind = _SEEN.get(name, 0)
            if kind and value:
                self._see(kind, value)

    def _scan_text(self, text: str) -> None:
        for item in text.split("\x02"):
            at = item.find("\x01")
            if at <= 0 or at == len(item) - 1:
                if item:
                    self.rewrite = True
                continue
            name = item[:at]
            kind = _SEEN.get(name, 0)
            if kind == 0:
                if name.startswith(names.TRANSIENT_PREFIX):
                    self.rewrite = True
            elif kind == _UNIQ_KEY:
                self.uniq_key = item[at + 1 :]
            elif kind == _KEYS:
                self.keys = item[at + 1 :]
            elif kind == _TAGS:
                self.tags = item[at + 1 :]
            else:
                self._see(kind, item[at + 1 :])

    def _see(self, kind: int, value: str) -> None:
        if kind == _DELAY:
            self.delay = value
        elif kind == _WAIT:
            # MessageConst WAIT: Boolean.parseBoolean, so anything but "true" is false.
            self.wait = value.lower() == "true"
        elif kind == _TRAN_MSG:
            self.transactional = value.lower() == "true"
        elif kind == _TIMER:
            self.timer = True
        elif kind == _TIMER_OUT:
            self.timer_out = True
        elif kind == _MULTI:
            self.multi = value
        elif kind == _MULTI_OFFSETS:
            self.multi_offsets = True
        elif kind == _INNER:
            self.inner_batch = True
        elif kind == _OURS:
            self.rewrite = True
        elif kind == _UNIQ_KEY:
            self.uniq_key = value
        elif kind == _KEYS:
            self.keys = value
        elif kind == _TAGS:
            self.tags = value


def stored_properties(raw: bytes) -> MessageProperties:
    """Return the properties of a stored record."""
    return MessageProperties(text_of(raw))
