"""The files of ACL 1 while a broker runs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from bolide.access.plain_gate import PlainGate
from bolide.errors import ConfigError
from bolide.node.access.plain_acl import PlainAcl
from bolide.node.machine.node_world import RealNodeWorld

LOG = logging.getLogger("tests.plain_acl")


def account(key: str, more: str = "") -> str:
    return f"accounts:\n- accessKey: {key}\n  secretKey: secret-of-{key}\n{more}"


class Watched:
    """A folder, what is read of it, and the gate that gets it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.watch = PlainAcl(RealNodeWorld(), str(folder), LOG)
        self.gate = PlainGate(self.watch.first(), {}, False)
        self.watch.start(self.gate)

    async def keys_after_looks(self, count: int) -> list[str]:
        for _ in range(count):
            await self.watch.look()
        return sorted(self.gate.accounts.by_key)


async def changed(folder: Path, *steps: tuple[str, str | None, int, list[str]]) -> None:
    """Each step: a file, its new text (None: it goes), how many looks, the keys that are known then."""
    watched = Watched(folder)
    try:
        for name, text, looks, keys in steps:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text, encoding="utf-8")
            assert await watched.keys_after_looks(looks) == keys, (name, text)
    finally:
        watched.watch.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plain_acl.yml").write_text(account("alice12"), encoding="utf-8")
    return tmp_path


async def test_a_change_counts_when_two_looks_have_seen_it(folder: Path) -> None:
    await changed(
        folder,
        ("plain_acl.yml", account("bobby12"), 1, ["alice12"]),
        ("plain_acl.yml", account("carol12"), 1, ["alice12"]),
        ("plain_acl.yml", account("carol12"), 1, ["carol12"]),
    )


async def test_further_files_come_and_go(folder: Path) -> None:
    await changed(
        folder,
        ("acl/sales/b.yaml", account("bobby12"), 2, ["alice12", "bobby12"]),
        ("acl/c.yml", account("carol12"), 2, ["alice12", "bobby12", "carol12"]),
        ("acl/notes.txt", "nothing", 2, ["alice12", "bobby12", "carol12"]),
        ("acl/sales/b.yaml", None, 2, ["alice12", "carol12"]),
    )


@pytest.mark.parametrize("broken", [None, "accounts: [", account("bobby12", "  admin: perhaps\n"), "a" * (1 << 21)])
async def test_invalid_account_file_is_ignored_and_logged_once(
    folder: Path, broken: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    await changed(
        folder, ("plain_acl.yml", broken, 5, ["alice12"]), ("plain_acl.yml", account("carol12"), 2, ["carol12"])
    )
    (said,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert said.startswith("keeping the old accounts, because the account files are invalid: ")
    assert "secret-of" not in caplog.text


def test_a_start_without_accounts_that_can_be_taken_is_refused(folder: Path) -> None:
    (folder / "plain_acl.yml").unlink()
    with pytest.raises(ConfigError, match=r"aclFolder: .*plain_acl.yml does not exist"):
        PlainAcl(RealNodeWorld(), str(folder), LOG).first()


def test_the_first_of_two_files_counts_and_it_is_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "acl").mkdir()
    (folder / "acl" / "a.yml").write_text(account("alice12"), encoding="utf-8")
    PlainAcl(RealNodeWorld(), str(folder), LOG).first()
    assert "two files have an account alice12" in caplog.text
