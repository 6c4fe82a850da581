"""What people write: settings files, variables of the environment, flags, lines for `bolide produce`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final, TypeAlias

from bolide.broker.options.composed import BrokerOptions
from bolide.cli.messages.produce import message_from_json
from bolide.cli.terminal.moment import moment_of
from bolide.client.messages.arguments import check_topic
from bolide.client.messages.encoding import check_body, properties_text
from bolide.client.messages.message import Message
from bolide.declaration import changed, settings_of, text_of, value_of, values_in
from bolide.errors import BolideError, ConfigError
from bolide.namesrv.options import NamesrvOptions
from bolide.node.settings.config import PREFIX, load_options, shown, variable_name
from bolide.node.settings.live_settings import edited
from bolide.remoting.properties_text import read_properties_utf8
from proof.fuzz import seeds
from proof.fuzz.choices import Choices
from proof.fuzz.target import Broken, Limits, Target

Daemon: TypeAlias = BrokerOptions | NamesrvOptions
KINDS: Final[tuple[type[Daemon], ...]] = (BrokerOptions, NamesrvOptions)
WORDS: Final = (
    *(key.encode() for kind in KINDS for key in settings_of(kind)),
    *(
        b"=true\n",
        b"=1e9\n",
        b"=-1\n",
        b" = ",
        b"\\\n",
        b"\\u0041",
        b"\\ud800",
        b"#",
        b"!",
        b":",
        b"=99999999999999999999\n",
    ),
    *(
        b"=1s 5s 10s\n",
        b"=SYNC_FLUSH\n",
        b"=127.0.0.1:1;x:2\n",
        b"\x00",
        b"\xff",
        b"\r",
        b"=1_000\n",
        "=\u0663\n".encode(),
    ),
)


def conf(data: bytes) -> None:
    """A settings file of either daemon: loaded, or refused by a ConfigError; shown and read again it is the same."""
    if not data:
        return
    kind = KINDS[data[0] % 2]
    try:
        texts = read_properties_utf8(data[1:])
    except ValueError:
        return
    known = settings_of(kind)
    for key, text in texts.items():
        if key not in known:
            continue
        with contextlib.suppress(ConfigError):
            value = value_of(known[key], text, "the file")
            if value_of(known[key], text_of(value), "") != value:
                raise Broken(f"{key} = {text!r} is {value!r}, and {text_of(value)!r} is another")
    with contextlib.suppress(ConfigError):
        load_from(kind, texts)


def load_from(kind: type[Daemon], texts: dict[str, str]) -> Daemon:
    """The options of these texts as variables and flags, without a file."""
    environ = {variable_name(key): text for key, text in texts.items() if "\0" not in text}
    loaded = load_options(kind, {key: text for key, text in texts.items() if key in settings_of(kind)}, None, environ)
    for key, value in values_in(loaded.options).items():
        shown(key, value)
    return loaded.options


def environment(data: bytes) -> None:
    """Variables of the environment, by any name."""
    choices = Choices(data)
    kind = choices.pick(KINDS)
    keys = [*settings_of(kind), "unknown", "aclEnable", "storeType"]
    environ: dict[str, str] = {}
    while choices.left:
        name = variable_name(choices.pick(keys)) if choices.byte() % 4 else PREFIX + choices.text()
        environ[name] = choices.text()
    with contextlib.suppress(ConfigError):
        loaded = load_options(kind, None, None, environ)
        again = load_options(kind, values_in(loaded.options))
        if again.options != loaded.options:
            raise Broken("options given as flags are others than those they were taken from")


def edited_conf(data: bytes) -> None:
    """A change at run time is kept in the file: read again it has the new values, and every other as before."""
    choices = Choices(data)
    keys = ("maxMessageSize", "brokerName", "a", "b", "fileReservedTime")
    changes = {choices.pick(keys): _strip(choices.text()) for _ in range(choices.below(3) + 1)}
    before = choices.rest().decode("utf-8", "surrogateescape")
    try:
        kept = _pairs(before)
    except ValueError:
        return
    try:
        after = _pairs(edited(before, changes))
    except ValueError as error:
        raise Broken(f"the file cannot be read any more: {error}") from error
    wanted = kept | changes
    if {key: value.strip() for key, value in after.items() if key} != {
        key: value.strip() for key, value in wanted.items() if key
    }:
        raise Broken(f"{before!r:.120} with {changes!r:.120} became {edited(before, changes)!r:.200}")


def _strip(text: str) -> str:
    return text.encode("utf-8", "replace").decode().strip()


def _pairs(text: str) -> dict[str, str]:
    return read_properties_utf8(text.encode("utf-8", "surrogateescape"))


def live_change(data: bytes) -> None:
    """UPDATE_BROKER_CONFIG: all keys change, or none does and the sentence says why."""
    options = BrokerOptions()
    try:
        changes = read_properties_utf8(data)
    except ValueError:
        return
    with contextlib.suppress(ConfigError):
        after = changed(options, changes, "the update")
        for value in values_in(after).values():
            text_of(value)


def produced_line(data: bytes) -> None:
    """A line for `bolide produce --from-json`: a message that a producer takes or refuses, or a ConfigError."""
    line = data.decode("utf-8", "surrogateescape")
    with contextlib.suppress(BolideError):
        message = message_from_json(line, Message("T"))
        properties_text(message, "0" * 32).encode("utf-8", "replace")
        check_body(message)
        check_topic(message.topic)


def moment(data: bytes) -> None:
    """A time on the command line."""
    with contextlib.suppress(BolideError):
        moment_of("--at", data.decode("utf-8", "replace"))


def _confs() -> Iterable[bytes]:
    for kind in KINDS:
        number = bytes([KINDS.index(kind)])
        known = settings_of(kind)
        lines = [f"{key}={text_of(setting.default)}\n".encode() for key, setting in known.items()]
        for at in range(0, len(lines), 10):
            yield number + b"".join(lines[at : at + 10])
        yield number + b"# comment\n  listenPort : 10911\nnamesrvAddr=a:1;\\\n  b:2\naclEnable=true\n"


def _environments() -> Iterable[bytes]:
    yield bytes(range(64))
    yield bytes([0, *range(3, 90, 2)])


def _edits() -> Iterable[bytes]:
    for seed in seeds.properties_texts():
        yield b"\x00\x02\x05" + seed
    yield b"\x00\x00\x06maxMessageSize=1\n# c\x0cbrokerName=b\n"


def _live() -> Iterable[bytes]:
    for key in ("maxMessageSize", "fileReservedTime", "waitTimeMillsInSendQueue"):
        yield f"{key}=4096\n".encode()


def _lines() -> Iterable[bytes]:
    yield b'{"body": "x", "tags": "t", "keys": ["a", "b"], "properties": {"p": "v"}, "delay": 5, "topic": "U"}'
    yield b'{"body": {"a": [1, 2.5, null]}, "delay_level": 3, "sharding_key": "s"}'


def _moments() -> Iterable[bytes]:
    yield from (b"2026-01-31T12:00+01:00", b"2026-01-31T11:00Z", b"1700000000000", b"first")


JSON_WORDS: Final = (
    *(
        b'"body":',
        b'"keys":[',
        b'"properties":{',
        b'"delay":',
        b'"delay_level":',
        b"Infinity",
        b"NaN",
        b"1e999",
        b"-0.0",
    ),
    *(
        b'"\\ud800"',
        b"[[[[[[[[",
        b'{"a":',
        b"null",
        b"true",
        b'"topic":[]',
        b'"sharding_key":1',
        b"99999999999999999999",
    ),
)
TARGETS: Final = (
    Target("conf", conf, _confs, Limits(steps=400_000, steps_per_byte=400, memory_per_byte=2000), words=WORDS, cost=4),
    Target("environment", environment, _environments, Limits(steps=400_000, steps_per_byte=2000), largest=512, cost=4),
    Target("edited_conf", edited_conf, _edits, Limits(steps_per_byte=400), words=WORDS[-18:], largest=1024),
    Target("live_change", live_change, _live, Limits(steps=200_000, steps_per_byte=400), words=WORDS, largest=512),
    Target("produced_line", produced_line, _lines, Limits(memory_per_byte=1000), words=JSON_WORDS),
    Target("moment", moment, _moments, words=(b"T", b"+14:00", b"-", b"Z", b"9999", "\u0663".encode()), largest=64),
)  # fmt: skip
