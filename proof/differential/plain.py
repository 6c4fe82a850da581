"""Readers of what brokers answer, in a few lines each: records, properties, and JSON as fastjson writes it."""

from __future__ import annotations

from typing import TypeAlias

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"


class Unreadable(ValueError):
    """The bytes are not what they should be."""


def read_properties(text: str) -> dict[str, Value]:
    """Properties as Java's decoder reads them: pairs without a name or value do not count."""
    found: dict[str, Value] = {}
    for part in text.split("\x02"):
        name, mark, value = part.partition("\x01")
        if name and mark and value:
            found[name] = value
    return found


def read_records(data: bytes) -> list[dict[str, Value]]:
    """The records of a pull or a query. Raises `Unreadable`."""
    records: list[dict[str, Value]] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size < 60 or at + size > len(data):
            raise Unreadable(f"a record of {size} bytes at {at} of {len(data)}")
        records.append(_record(data[at : at + size]))
        at += size
    return records


def _record(data: bytes) -> dict[str, Value]:
    at = 4

    def number(size: int, signed: bool = True) -> int:
        nonlocal at
        at += size
        return int.from_bytes(data[at - size : at], "big", signed=signed)

    def host(ipv6: bool) -> str:
        nonlocal at
        at += 16 if ipv6 else 4
        address = data[at - (16 if ipv6 else 4) : at].hex()
        return f"{address}:{number(4)}"

    def text(size: int) -> str:
        nonlocal at
        at += size
        return data[at - size : at].decode("utf-8", "surrogateescape")

    found: dict[str, Value] = {"magic": number(4, False), "bodyCrc": number(4, False), "queueId": number(4)}
    found |= {"flag": number(4), "queueOffset": number(8), "physicalOffset": number(8)}
    sys_flag = number(4)
    found |= {"sysFlag": sys_flag, "bornTimestamp": number(8), "bornHost": host(bool(sys_flag & 0x10))}
    found |= {"storeTimestamp": number(8), "storeHost": host(bool(sys_flag & 0x20)), "reconsumeTimes": number(4)}
    found["preparedTransactionOffset"] = number(8)
    size = number(4)
    found["body"] = data[at : at + size].decode("latin-1")
    at += size
    found["topic"] = text(number(2, False) if found["magic"] == 0xDAA320AB else number(1, False))
    found["properties"] = read_properties(text(number(2)))
    if at != len(data):
        raise Unreadable(f"a record of {len(data)} bytes whose fields end at {at}")
    return found


def read_json(data: bytes) -> Value:
    """JSON with the keys that fastjson writes: numbers and objects, too. Raises `Unreadable`."""
    reader = _Json(data.decode("utf-8", "surrogateescape"))
    value = reader.value()
    reader.blank()
    if reader.at != len(reader.text):
        raise Unreadable(f"text after the end of the JSON: {reader.text[reader.at : reader.at + 40]!r}")
    return value


class _Json:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def blank(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1

    def next(self) -> str:
        self.blank()
        return self.text[self.at : self.at + 1]

    def take(self, mark: str) -> None:
        if self.next() != mark:
            raise Unreadable(f"{mark!r} expected at {self.at}: {self.text[self.at : self.at + 40]!r}")
        self.at += 1

    def value(self) -> Value:
        mark = self.next()
        if mark == "{":
            return self.object()
        if mark == "[":
            return self.array()
        if mark == '"':
            return self.string()
        begin = self.at
        while self.at < len(self.text) and self.text[self.at] not in ",:{}[] \t\r\n":
            self.at += 1
        word = self.text[begin : self.at]
        if word in ("null", "true", "false"):
            return {"null": None, "true": True, "false": False}[word]
        try:
            return int(word)
        except ValueError:
            pass
        try:
            return float(word)
        except ValueError:
            raise Unreadable(f"no value at {begin}: {self.text[begin : begin + 40]!r}") from None

    def object(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        self.take("{")
        while self.next() != "}":
            key = self.value()
            self.take(":")
            found[key if isinstance(key, str) else canonical(key)] = self.value()
            if self.next() != "}":
                self.take(",")
        self.take("}")
        return found

    def array(self) -> list[Value]:
        found: list[Value] = []
        self.take("[")
        while self.next() != "]":
            found.append(self.value())
            if self.next() != "]":
                self.take(",")
        self.take("]")
        return found

    def string(self) -> str:
        self.take('"')
        found: list[str] = []
        while True:
            if self.at >= len(self.text):
                raise Unreadable("a text without end")
            char = self.text[self.at]
            self.at += 1
            if char == '"':
                return "".join(found)
            if char == "\\":
                char = self.text[self.at]
                self.at += 1
                if char == "u":
                    char = chr(int(self.text[self.at : self.at + 4], 16))
                    self.at += 4
                elif char == "x":
                    char = chr(int(self.text[self.at : self.at + 2], 16))
                    self.at += 2
                else:
                    char = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}.get(char, char)
            found.append(char)


def canonical(value: Value) -> str:
    """One text for equal values, whatever the order of their keys."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}={canonical(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
