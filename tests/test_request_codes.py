"""Every request code of RocketMQ is answered or refused as docs/request-codes.md says, with Java's header."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.generate_request_codes import PAGE, broker_rows, client_codes, controller_rows, namesrv_rows, page

from bolide.controller.options import ControllerOptions
from bolide.namesrv.options import NamesrvOptions
from bolide.node.controller.node import ControllerNode
from bolide.node.namesrv import NamesrvNode
from bolide.remoting import codes
from bolide.remoting.command import make_request
from bolide.remoting.request_routes import Kind, Row
from bolide.transport.client import ClientConnection
from proof.kit.ports import reserve_port
from proof.kit.waiting import PATIENCE
from tests.node.brokers import broker
from tests.remoting.vectors import requests

CODES = [int(entry["code"]) for entry in requests()]


def listed() -> dict[int, list[str]]:
    """The lines of the page by code."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text("utf-8").splitlines()]
    return {int(line[0]): line for line in cells if line and line[0].isdecimal()}


async def answered(client: ClientConnection) -> set[int]:
    """The codes that are not refused as unknown; the requests have neither fields nor a body."""
    found = set()
    for code in CODES:
        answer = await client.request(make_request(code, 0), PATIENCE)
        if answer.code == codes.REQUEST_CODE_NOT_SUPPORTED:
            reason = listed()[code][3].partition("(3); ")[2]
            ours = "" if reason in ("", "RocketMQ's servers also reject it") else f": {reason}"
            assert answer.remark == f" request type {code} not supported{ours}"
        else:
            found.add(code)
    return found


def test_the_page_is_that_of_the_rows() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run tools/generate_request_codes.py"


def test_the_page_has_every_code_once() -> None:
    names = {int(entry["code"]): entry["name"] for entry in requests()}
    assert {code: cells[1] for code, cells in listed().items()} == names == codes.REQUEST_NAMES


async def test_a_broker_answers_what_is_listed(tmp_path: Path) -> None:
    async with broker(tmp_path, listen_port=reserve_port(-2), fast_port_enable="true") as (node, client):
        found = await answered(client)
        fast = await ClientConnection.connect(f"{node.ip}:{node.port - 2}", PATIENCE)
        try:
            slow = {code for code, cells in listed().items() if cells[6] == "main"}
            assert await answered(fast) == found - slow
        finally:
            fast.close()
            await fast.wait_closed()
    assert found == {code for code, cells in listed().items() if "broker" in cells[3].split(", ")}


async def answered_by(node: NamesrvNode | ControllerNode) -> set[int]:
    """The codes that a server answers, from its start to its stop."""
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        return await answered(client)
    finally:
        client.close()
        await client.wait_closed()
        await node.stop()


async def test_a_name_server_answers_what_is_listed(tmp_path: Path) -> None:
    node = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kvConfig.json")))
    assert await answered_by(node) == {code for code, cells in listed().items() if "name server" in cells[3]}


async def test_a_controller_answers_what_is_listed(tmp_path: Path) -> None:
    options = ControllerOptions(
        listen_port=0, controller_store=f"file:{tmp_path}/sets.json", config_store_path=str(tmp_path / "own.conf")
    )
    node = ControllerNode(options)
    assert await answered_by(node) == {code for code, cells in listed().items() if "controller" in cells[3].split(", ")}


async def test_each_code_is_answered_by_a_server_that_answers_it_in_rocketmq() -> None:
    served = {int(entry["code"]): set(entry["served_by"]) for entry in requests()}
    assert {code for code in await broker_rows() if "broker" not in served[code]} == {codes.TRIGGER_DELETE_FILES}
    assert {code for code in namesrv_rows() if "namesrv" not in served[code]} == set()
    assert {code for code in controller_rows() if "controller" not in served[code]} == set()
    assert {code for code in CODES if "controller" in served[code]} - controller_rows().keys() == set()
    assert {code for code in client_codes() if "client" not in served[code]} == set()
    assert {code for code in CODES if "client" in served[code]} - client_codes() == {codes.NOTIFY_UNSUBSCRIBE_LITE}


async def test_the_header_of_a_row_is_that_of_java() -> None:
    rows: dict[int, Row[Any, Any]] = {**controller_rows(), **namesrv_rows(), **await broker_rows()}
    java = {int(entry["code"]): entry.get("request_header") for entry in requests()}
    for code, row in rows.items():
        header = java[code]
        own = header is not None and any(not field.get("inherited") for field in header["fields"])
        if row.header is not None:
            assert header is not None and row.header.__name__ == header["class"], code
        else:
            assert not own, f"{code}: the row lacks {header['class']}"


async def test_kinds_carry_the_rules_that_go_with_them() -> None:
    rows = await broker_rows()
    assert {row.code for row in rows.values() if row.kind is Kind.PULL} == {codes.PULL_MESSAGE, codes.LITE_PULL_MESSAGE}
    assert {row.code for row in rows.values() if not row.fast_port} == {codes.PULL_MESSAGE, codes.LITE_PULL_MESSAGE}
    assert {row.code for row in rows.values() if row.kind is Kind.SEND} == {
        codes.SEND_MESSAGE,
        codes.SEND_MESSAGE_V2,
        codes.SEND_BATCH_MESSAGE,
        codes.CONSUMER_SEND_MSG_BACK,
        codes.SEND_REPLY_MESSAGE,
        codes.SEND_REPLY_MESSAGE_V2,
    }
    assert {row.code for row in rows.values() if row.light} == {
        codes.SEND_MESSAGE,
        codes.SEND_MESSAGE_V2,
        codes.SEND_BATCH_MESSAGE,
        codes.UPDATE_CONSUMER_OFFSET,
    }
    assert all(row.durable for row in rows.values() if row.kind is Kind.SEND)
