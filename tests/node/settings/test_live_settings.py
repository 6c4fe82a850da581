"""Settings changed at run time: in force at once, kept in the file, refused with the key and the reason."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bolide.broker.options.composed import BrokerOptions
from bolide.node.broker import BrokerNode
from bolide.node.broker_process import kept_settings
from bolide.node.machine.node_world import RealNodeWorld
from bolide.node.settings.config import load_daemon, load_options
from bolide.node.settings.live_settings import edited
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.remoting.properties_text import read_properties_utf8
from bolide.store.disk.files import FileFailed, RealFiles
from bolide.transport.client import ClientConnection
from proof.kit.waiting import PATIENCE
from tests.node.brokers import options, pull_request, send_request

CONF = "# mine\nfileReservedTime = 72\nbrokerName=broker-a\ndeleteWhen=04\n"


class RefusingFiles(RealFiles):
    """Real files, but for the configuration file."""

    def write_file(self, path: str, data: bytes) -> None:
        if path.endswith(".conf"):
            raise FileFailed(f"cannot write {path}: read-only file system")
        super().write_file(path, data)


@asynccontextmanager
async def running(folder: Path, conf: str | None, files: RealFiles | None = None) -> AsyncIterator[ClientConnection]:
    node = BrokerNode(options(folder / "store", auto_create_topic_enable=True), world=RealNodeWorld(files), conf=conf)
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        yield client
    finally:
        client.close()
        await client.wait_closed()
        await node.stop()


async def update(client: ClientConnection, body: str) -> Command:
    return await client.request(make_request(codes.UPDATE_BROKER_CONFIG, 0, body=body.encode()), PATIENCE)


async def in_force(client: ClientConnection) -> dict[str, str]:
    return read_properties_utf8((await client.request(make_request(codes.GET_BROKER_CONFIG, 0), PATIENCE)).body)


async def test_a_change_is_in_force_at_once_and_kept(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(CONF, encoding="utf-8")
    async with running(tmp_path, str(conf)) as client:
        assert (await client.request(send_request("Before"), PATIENCE)).code == 0
        answer = await update(client, "fileReservedTime=48\nautoCreateTopicEnable=false\nmaxHeldRequests=1\n")
        assert (answer.code, answer.remark) == (0, None)
        found = await in_force(client)
        assert (found["fileReservedTime"], found["autoCreateTopicEnable"]) == ("48", "false")
        assert (await client.request(send_request("After"), PATIENCE)).code == codes.TOPIC_NOT_EXIST
        held = client.start(pull_request("Before", offset=1, sys_flag=6, suspend=60_000), 2 * PATIENCE)
        one_more = await client.request(pull_request("Before", offset=1, sys_flag=6, suspend=60_000), PATIENCE)
        assert one_more.code == codes.FLOW_CONTROL and not held.done()
        held.cancel()
    text = conf.read_text(encoding="utf-8")
    assert text.startswith("# mine\nbrokerName=broker-a\ndeleteWhen=04\nfileReservedTime=48\n")
    assert Path(str(conf) + ".bak").read_text(encoding="utf-8") == CONF
    assert load_options(BrokerOptions, None, str(conf), {}).options.pull.max_held_requests == 1


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ("listenPort=1\nfileReservedTime=48\n", codes.SYSTEM_ERROR, "listenPort cannot be changed .* restart"),
        ("noSuchKey=1\n", codes.SYSTEM_ERROR, "noSuchKey is not a setting"),
        ("readUnCommitted=1\n", codes.SYSTEM_ERROR, "readUnCommitted has no effect here: messages can be read once"),
        ("authenticationEnabled=false\n", codes.SYSTEM_ERROR, "authenticationEnabled cannot be changed .* restart"),
        ("aclEnable=true\n", codes.SYSTEM_ERROR, "aclEnable cannot be changed .* restart"),
        ("maxTopics=0\n", codes.SYSTEM_ERROR, r"maxTopics = '0' \(the update\) is not allowed: .* from 1 to"),
        ("fileReservedTime=soon\n", codes.SYSTEM_ERROR, "fileReservedTime = 'soon' .* whole number"),
        ("deleteWhen=25\nfileReservedTime=48\n", codes.SYSTEM_ERROR, "deleteWhen"),
        ("rocketmqHome=/\nfileReservedTime=48\n", codes.NO_PERMISSION, "black list"),
    ],
)
async def test_rejected_change_leaves_all_settings(tmp_path: Path, body: str, code: int, says: str) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(CONF, encoding="utf-8")
    async with running(tmp_path, str(conf)) as client:
        before = await in_force(client)
        answer = await update(client, body)
        assert answer.code == code
        with pytest.raises(AssertionError, match=says):
            raise AssertionError(answer.remark)
        assert await in_force(client) == before
    assert conf.read_text(encoding="utf-8") == CONF


async def test_a_file_that_cannot_be_written_undoes_the_change(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(CONF, encoding="utf-8")
    async with running(tmp_path, str(conf), RefusingFiles()) as client:
        answer = await update(client, "autoCreateTopicEnable=false\n")
        assert answer.code == codes.SYSTEM_ERROR and "could not be written" in (answer.remark or "")
        assert (await client.request(send_request("New"), PATIENCE)).code == 0
        assert (await in_force(client))["autoCreateTopicEnable"] == "true"


async def test_the_black_list_of_the_settings_counts(tmp_path: Path) -> None:
    node = BrokerNode(options(tmp_path, config_black_list="maxTopics;deleteWhen", tls_key_password="secret"))
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        assert (await update(client, "deleteWhen=05\n")).code == codes.NO_PERMISSION
        assert (await update(client, "fileReservedTime=48\n")).code == 0
        assert (await in_force(client))["tlsKeyPassword"] == "******"
    finally:
        client.close()
        await client.wait_closed()
        await node.stop()


async def test_without_a_file_a_change_lasts_as_long_as_the_broker(tmp_path: Path) -> None:
    async with running(tmp_path, None) as client:
        assert (await client.request(send_request(), PATIENCE)).code == 0
        assert (await client.request(pull_request(), PATIENCE)).code != codes.NO_PERMISSION
        assert (await update(client, "brokerPermission=2\n")).code == 0
        assert (await in_force(client))["brokerPermission"] == "2"
        assert (await client.request(pull_request(), PATIENCE)).code == codes.NO_PERMISSION
    assert list(tmp_path.glob("*.conf*")) == []


async def test_a_file_keeps_its_mode_and_its_odd_bytes(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_bytes(b"tlsKeyPassword=secret\n# K\xe4se\n")
    conf.chmod(0o600)
    async with running(tmp_path, str(conf)) as client:
        assert (await update(client, "fileReservedTime=48\n")).code == 0
    assert conf.read_bytes() == b"tlsKeyPassword=secret\n# K\xe4se\nfileReservedTime=48\n"
    assert [file.stat().st_mode & 0o777 for file in tmp_path.glob("broker.conf*")] == [0o600, 0o600]


async def test_a_broker_without_a_file_keeps_changes_in_its_store(tmp_path: Path) -> None:
    flags = {"storePathRootDir": str(tmp_path / "store")}
    loaded, kept = load_daemon(BrokerOptions, flags, None, kept_settings, {})
    assert kept == str(tmp_path / "store" / "config" / "broker.conf")
    async with running(tmp_path, kept) as client:
        assert (await update(client, "fileReservedTime=48\n")).code == 0
    loaded, again = load_daemon(BrokerOptions, flags, None, kept_settings, {})
    assert (again, loaded.options.store.file_reserved_time) == (kept, 48)
    assert loaded.origins["fileReservedTime"] == f"file {kept}"
    assert Path(kept).stat().st_mode & 0o077 == 0
    own = tmp_path / "own.conf"
    own.write_text("fileReservedTime=24\n", encoding="utf-8")
    loaded, kept = load_daemon(BrokerOptions, flags, str(own), kept_settings, {})
    assert (kept, loaded.options.store.file_reserved_time) == (str(own), 24)


def test_an_edited_file_reads_as_before_but_for_the_changes() -> None:
    text = "# c\na=1\n b : 2\nlong=x\\\n  y\nb=3\nlast=z\\"
    new = read_properties_utf8(edited(text, {"b": "4", "long": "q"}).encode())
    assert new == {"a": "1", "b": "4", "long": "q", "last": "z"}


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_only_what_ends_a_line_for_java_does_so_in_an_edited_file(mark: str) -> None:
    text = edited(f"brokerName=a\n# old{mark}brokerName=x\n", {"fileReservedTime": "48"})
    assert read_properties_utf8(text.encode()) == {"brokerName": "a", "fileReservedTime": "48"}


def test_a_value_cannot_bring_other_keys_into_the_file() -> None:
    text = edited("", {"deleteWhen": "04\nbrokerName=x", "diskMaxUsedSpaceRatio": "75\\"})
    assert read_properties_utf8(f"{text}brokerIP1=b\n".encode()) == {
        "deleteWhen": "04\nbrokerName=x", "diskMaxUsedSpaceRatio": "75\\", "brokerIP1": "b",
    }  # fmt: skip


async def test_an_update_that_is_no_properties_text_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with running(tmp_path, None) as client:
        answer = await update(client, "fileReservedTime=\\u00\n")
        assert answer.code == codes.SYSTEM_ERROR
        assert str(answer.remark).startswith("the properties cannot be read: the escape")
