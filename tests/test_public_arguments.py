"""Each argument of each public function is checked by its declaration: a wrong one is an error that names it."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, get_args, get_type_hints

import pytest

from bolide import admin, client
from bolide.admin import blocking as admin_blocking
from bolide.client import ArgumentError, UnexpectedArgument, blocking
from bolide.client.messages.checked import ONCE_PER_MESSAGE, check_of
from bolide.errors import BolideError
from bolide.testing import Broker
from tests.client_classes import BLOCKING, NATIVE, Payments, name_of, not_started

CLIENTS: list[Callable[[], Any]] = [*(partial(not_started, kind) for kind in [*NATIVE, admin.Admin]), Broker]
CONSTRUCTORS: list[Any] = [
    *NATIVE, admin.Admin, Broker, client.AclHook, client.NamespaceHook, client.Selector, client.run,
    client.strategies.config, client.strategies.machine_room, client.OpenTelemetry, client.PrometheusMetrics,
]  # fmt: skip
INTERNAL = {"ask", "ask_namesrv", "tell_every_namesrv", "decoded", "masters", "topic_masters", "topic_readers"} | {
    "reader_of",
    "master_of",
}
"""Requests to brokers for which `Admin` has no method yet."""


class Wrong:
    """No argument may be such an object."""


def methods() -> Iterator[Any]:
    """The public methods of the clients, each with what makes a client."""
    for make in CLIENTS:
        kind = type(make())
        for name, member in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and name not in INTERNAL:
                yield pytest.param(make, name, member, id=f"{kind.__name__}.{name}")


def call(function: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    """Call a function, and await what it returns."""

    async def awaited() -> None:
        result = function(*arguments, **named)
        if inspect.isawaitable(result):
            await result

    asyncio.run(awaited())


def checked_arguments(function: Any) -> list[str]:
    """The arguments whose declaration allows only some values."""
    hints = get_type_hints(getattr(function, "__wrapped__", function), include_extras=True)
    hints.pop("return", None)
    return [name for name, hint in hints.items() if check_of(hint) is not None]


@pytest.mark.parametrize(("make", "name", "member"), methods())
def test_each_method_rejects_wrong_arguments_by_name(make: Any, name: str, member: Any) -> None:
    if name in ONCE_PER_MESSAGE:
        return
    for argument in checked_arguments(member):
        with pytest.raises(ArgumentError, match=rf"^(a key of |the )?{argument}\b") as caught:
            call(getattr(make(), name), **{argument: Wrong()})
        assert caught.value.argument == argument


@pytest.mark.parametrize("made", CONSTRUCTORS, ids=lambda made: made.__name__)
def test_each_constructor_rejects_wrong_arguments_by_name(made: Any) -> None:
    function = made.__init__ if isinstance(made, type) else made
    for argument in checked_arguments(function):
        with pytest.raises(ArgumentError, match=rf"^(the )?{argument}\b") as caught:
            call(made, **{argument: Wrong()})
        assert caught.value.argument == argument


@pytest.mark.parametrize("key", client.ConnectionOptions.__annotations__)
def test_each_connection_option_is_checked(key: str) -> None:
    with pytest.raises(ArgumentError, match=rf"^{key}\b"):
        client.Producer("P", "a:1", **{key: Wrong()})  # type: ignore[arg-type] # that is the test


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: client.PushConsumer("G", orderly="no"), "orderly is 'no' (str), give True or False"),
        (lambda: client.Producer(ssl=True), "ssl is True, give an object of the class SSLContext"),
        (
            lambda: client.Producer(namespace="a b"),
            "namespace 'a b' is invalid, only letters, digits, - and _ are allowed",
        ),
        (lambda: client.Producer(trace="no"), "trace is 'no' (str), give True or False"),
        (lambda: client.Producer(instance_name=5), "instance_name is 5, give a str"),
        (lambda: client.Producer(namesrv=[]), "namesrv: the list of addresses is empty, write host:port;host:port"),
        (
            lambda: client.Producer(namesrv=["a:1", ""]),
            "namesrv ['a:1', ''] has an empty address, give each as host:port",
        ),
        (lambda: client.strategies.machine_room("east"), "rooms is 'east' (str), give a list of str objects"),
        (lambda: client.Selector("a > 5", 5), "expression_type is 5, give a str"),
        (lambda: client.lmq(5), "name is 5, give a str"),
        (lambda: client.lmq(""), "name is '', give the name of a light queue"),
        (lambda: client.lmq("%LMQ%"), "name is '%LMQ%', give the name of a light queue"),
        (
            lambda: client.NamespaceHook("a b"),
            "namespace 'a b' is invalid, only letters, digits, - and _ are allowed",
        ),
        (lambda: client.decode_trace(b"Pub"), "text is b'Pub' (bytes), give a str"),
        (
            lambda: client.Selector("a = '\udcff'"),
            "expression contains '\\udcff', half of a surrogate pair, give Unicode text",
        ),
        (lambda: client.Producer(timeout=1e13), "timeout is 10000000000000.0, give seconds above 0, 1e+12 at most"),
        (
            lambda: client.Producer(max_body=2**63),
            "max_body is 9223372036854775808, give a whole number from 1 to 9223372036854775807",
        ),
    ],
)
def test_wrong_values_are_rejected_in_one_sentence(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"filter_type": "zz"}, "filter_type is 'zz' (str), give one of SINGLE_TAG, MULTI_TAG"),
        ({"queues": 0}, "queues is 0, give a whole number from 1 to 65536"),
        ({"queues": 65_537}, "queues is 65537, give a whole number from 1 to 65536"),
        ({"perm": 99}, "perm is 99, give a whole number from 0 to 7"),
        (
            {"queues": 4, "read_queues": 8},
            "queues sets read_queues and write_queues, one of which is given as well: leave one out",
        ),
    ],
)
def test_topics_are_not_created_with_wrong_settings(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call(admin.Admin("a:1").create_topic, "T", **given)
    assert str(caught.value) == text


KIND_AND_NAME = "give * or a kind and a name, such as Topic:orders, Group:bill* or Cluster:*"
ACTION_NAMES = "give one of All, Pub, Sub, Create, Update, Delete, Get, List"


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("create_user", ("u", "p", {"user_type": "Root"}), "user_type is 'Root' (str), give one of Super, Normal"),
        ("update_user", ("u", {"user_type": "Root"}), "user_type is 'Root' (str), give one of Super, Normal"),
        (
            "update_user",
            ("u", {"user_status": "disabled"}),
            "user_status is 'disabled' (str), give one of enable, disable",
        ),
        ("put_policy", ("u", "Topic:T", ["Pub", "Read"], {}), f"actions is 'Read' (str), {ACTION_NAMES}"),
        ("put_policy", ("u", "Topic:T", "Pub", {}), "actions is 'Pub' (str), give several in a list"),
        ("put_policy", ("u", "Queue:T", ["Pub"], {}), f"resource is 'Queue:T' (str), {KIND_AND_NAME}"),
        ("delete_policy", ("u", "Queue:T", {}), f"resource is 'Queue:T' (str), {KIND_AND_NAME}"),
        ("delete_policy", ("u", "", {}), f"resource is '' (str), {KIND_AND_NAME}"),
        ("delete_policy", ("u", "*", {"policy_type": "x"}), "policy_type is 'x' (str), give one of Custom, Default"),
        ("create_group", ("a b", {}), "group 'a b' is invalid, only letters, digits and %|-_ are allowed"),
        ("create_group", ("G", {"retry_queues": -1}), "retry_queues is -1, give a whole number from 0 to 65536"),
        ("create_group", ("G", {"retry_max_times": -2}), "retry_max_times is -2, give a whole number of at least -1"),
        (
            "message_by_offset_id",
            ("x", {}),
            "'x' is not an offset message id, which has 32 or 56 hex digits",
        ),
        (
            "topic_config_at",
            ("", "T", {}),
            "address: '' is not an address, write host:port with a port from 1 to 65535",
        ),
        (
            "members",
            ("b", {"controllers": "a:1;b"}),
            "controllers: 'b' is not an address, write host:port with a port from 1 to 65535",
        ),
    ],
)
def test_admin_rejects_wrong_values_by_name(name: str, given: tuple[Any, ...], text: str) -> None:
    """A broker ignores most of them, or uses a default."""
    *arguments, named = given
    with pytest.raises(ArgumentError) as caught:
        call(getattr(admin.Admin("a:1"), name), *arguments, **named)
    assert str(caught.value) == text
    assert caught.value.argument == re.split(r"\W", text)[0] or name == "message_by_offset_id"


def test_admin_rejects_a_namespace_which_it_would_not_apply() -> None:
    for kind in (admin.Admin, admin_blocking.Admin):
        with pytest.raises(ArgumentError, match="^namespace is 'team', but .*: leave it out, and write ") as no:
            kind(namespace="team")
        assert no.value.argument == "namespace"
        kind(namespace="")


@pytest.mark.parametrize(
    ("call_it", "text"),
    [
        (
            lambda: client.Producer(time_out=3),
            "Producer() got an unexpected option 'time_out'; did you mean 'timeout'?",
        ),
        (
            lambda: client.TransactionProducer("P", "a:1", Payments(), retri=3),
            "TransactionProducer() got an unexpected option 'retri'; did you mean 'retry'?",
        ),
        (
            lambda: client.PushConsumer("G", heart_beat_interval=3),
            "PushConsumer() got an unexpected option 'heart_beat_interval'; did you mean 'heartbeat_interval'?",
        ),
        (
            lambda: blocking.PullConsumer("G", call_time_out=3),
            "PullConsumer() got an unexpected option 'call_time_out'; did you mean 'call_timeout'?",
        ),
        (lambda: admin.Admin(xyz=3), "Admin() got an unexpected option 'xyz'; help(Admin) lists them"),
        (
            lambda: call(admin.Admin("a:1").create_topic, "T", quues=3),
            "Admin.create_topic() got an unexpected option 'quues'; did you mean 'queues'?",
        ),
        (
            lambda: call(client.run, drain_time=3),
            "run() got an unexpected option 'drain_time'; did you mean 'drain_timeout'?",
        ),
    ],
)
def test_misspelt_option_is_reported_by_the_class_that_was_called(call_it: Callable[[], Any], text: str) -> None:
    with pytest.raises(UnexpectedArgument) as caught:
        call_it()
    assert str(caught.value) == text
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("make", "text", "read", "value"),
    [
        (
            lambda: client.TransactionProducer("P", "a:1", Payments(), retries=3),
            "retries is deprecated; give retry=Retry(attempts=...), which counts the first try as well",
            lambda producer: producer._sender.retries,
            3,
        ),
        (
            lambda: client.PushConsumer("G", "a:1", max_span=40),
            "max_span is deprecated; give flow=FlowControl(max_span=...)",
            lambda consumer: consumer._pulls._settings.flow,
            client.FlowControl(max_span=40),
        ),
    ],
)
def test_old_keyword_warns_at_its_caller_and_sets_the_field_that_replaces_it(
    make: Callable[[], Any], text: str, read: Callable[[Any], Any], value: object
) -> None:
    with pytest.warns(DeprecationWarning, match=" is deprecated; give ") as warned:
        made = make()
    assert [str(each.message) for each in warned] == [text]
    assert warned[0].filename == __file__
    assert read(made) == value


def test_several_old_keywords_are_fields_of_one_option() -> None:
    with pytest.warns(DeprecationWarning, match=" is deprecated; give ") as warned:
        producer = blocking.Producer("P", "a:1", retries=0, retry_when_not_safe=True)
    assert len(warned) == 2
    assert (producer._native._sender.retries, producer._native._sender.retry_when_not_safe) == (0, True)


def test_old_keyword_beside_its_new_option_is_rejected() -> None:
    with pytest.raises(ArgumentError, match="^retries and retry are both given; give retry alone$"):
        client.Producer("P", retries=0, retry=client.Retry(attempts=2))


def test_value_of_an_old_keyword_is_checked() -> None:
    with pytest.warns(DeprecationWarning, match="^retries "), pytest.raises(ArgumentError, match="^attempts "):
        client.Producer("P", retries=-1)


def test_name_servers_are_a_text_or_a_list() -> None:
    for given in ("a:1;b:2", ["a:1", "b:2"], ("a:1", "b:2")):
        assert client.Producer("P", given)._sender.options.namesrv == ("a:1", "b:2")


async def test_methods_called_once_per_message_check_their_arguments_themselves() -> None:
    producer, consumer = client.Producer("P", "a:1"), client.PullConsumer("G", "a:1")
    with pytest.raises(client.ClientStateError):
        await producer.send(client.Message("T", b"x"), queue="Q")  # type: ignore[arg-type] # that is the test
    with pytest.raises(client.ClientStateError):
        await consumer.poll("5")  # type: ignore[arg-type] # the same


@pytest.mark.parametrize("kind", [*NATIVE, *BLOCKING, admin.Admin], ids=name_of)
def test_help_describes_every_option_of_every_client(kind: type[Any]) -> None:
    described = re.findall(r"^ +(\w+)(?: \(.*?\))?: ", str(inspect.getdoc(kind)).partition("Arguments:")[2], re.M)
    assert [each for each in inspect.signature(kind).parameters if each not in described] == []


@pytest.mark.parametrize("kind", [*NATIVE, *BLOCKING, admin.Admin, client.Retry, client.FlowControl], ids=name_of)
def test_help_shows_arguments_and_plain_types(kind: type[Any]) -> None:
    text = pydoc.plain(pydoc.render_doc(kind))
    signature = text.split("\n")[3]
    assert signature.startswith(f" |  {kind.__name__}(")
    assert "Annotated" not in signature
    assert "Annotated" not in str(inspect.signature(kind).replace(return_annotation=kind))
    assert "\n |  Arguments:\n" in text


def bolide_classes(hint: Any) -> Iterator[type]:
    """The classes of Bolide in an annotation."""
    if isinstance(hint, type) and not get_args(hint) and hint.__module__.startswith("bolide"):
        yield hint
    for part in get_args(hint):
        for each in part if isinstance(part, list) else [part]:
            yield from bolide_classes(each)


@pytest.mark.parametrize("module", ["bolide.client", "bolide.admin", "bolide.testing"])
def test_types_of_public_signatures_and_fields_can_be_imported(module: str) -> None:
    public = [import_module(name) for name in ("bolide.client", "bolide.admin", "bolide.testing")]
    exported = {id(getattr(each, name)) for each in public for name in each.__all__}
    hidden = set()
    for name in import_module(module).__all__:
        kind = getattr(import_module(module), name)
        functions = [kind] if inspect.isfunction(kind) else []
        if isinstance(kind, type) and kind.__module__.startswith("bolide"):
            parts = {part: inspect.getattr_static(kind, part) for part in dir(kind) if part not in INTERNAL}
            functions += [
                part.fget if isinstance(part, property) else part
                for part_name, part in parts.items()
                if (not part_name.startswith("_") or part_name == "__init__")
            ]
        hints = [hint for each in filter(inspect.isfunction, functions) for hint in get_type_hints(each).values()]
        if isinstance(kind, type):
            hints += [hint for field, hint in get_type_hints(kind).items() if not field.startswith("_")]
        for hint in hints:
            hidden |= {each.__qualname__ for each in bolide_classes(hint) if id(each) not in exported}
    # The queues in a ConsumerRunningInfo are of a class that has the name of another public one.
    assert hidden <= {"MessageQueue"}


def test_misuse_is_no_error_of_the_peer_and_a_timeout_is_a_timeout() -> None:
    for error in (client.ClientStateError, client.ClientForked):
        assert not issubclass(error, client.PeerError) and issubclass(error, BolideError | RuntimeError)
    assert not issubclass(client.CodecError, client.PeerError) and issubclass(client.CodecError, ValueError)
    assert issubclass(client.RequestTimeout, TimeoutError)


def test_a_status_prints_as_its_name() -> None:
    assert f"{client.SendStatus.SEND_OK}" == str(client.SendStatus.SEND_OK) == "SEND_OK"
    assert f"{client.TransactionState.COMMIT}" == str(client.TransactionState.COMMIT) == "COMMIT"
    assert f"{client.PullStatus.FOUND}" == str(client.PullStatus.FOUND) == "FOUND"
    assert client.SendStatus.FLUSH_DISK_TIMEOUT == 10


@pytest.mark.parametrize("secret", [b"s3cret", 53])
def test_an_error_does_not_show_a_secret(secret: Any) -> None:
    for make in (
        lambda: client.Producer("P", "a:1", access_key="u", secret_key=secret),
        lambda: client.AclHook("u", secret),
        lambda: asyncio.run(admin.Admin("a:1").create_user("u", secret)),
    ):
        with pytest.raises(ArgumentError, match=f"is a {type(secret).__name__}, give a str") as caught:
            make()
        assert str(secret) not in str(caught.value)
