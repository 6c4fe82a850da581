"""The end of a certificate, as openssl tells it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bolide.transport.certificates import certificate_end
from bolide.transport.tls_contexts import RenewedContext, client_context
from tests.transport.certificates import have_openssl, openssl

pytestmark = pytest.mark.skipif(not have_openssl(), reason="openssl is not installed")

DAY_MS = 86_400_000


def made(path: Path, days: int) -> str:
    words = "req -x509 -newkey rsa:2048 -nodes -subj /CN=bolide".split()
    key = path.with_suffix(".key")
    openssl(*words, "-days", str(days), "-keyout", str(key), "-out", str(path))
    return path.read_text(encoding="ascii")


@pytest.mark.parametrize("days", [1, 40_000], ids=["UTCTime", "GeneralizedTime"])
def test_end_is_as_long_after_now_as_the_certificate_was_made_for(days: int, tmp_path: Path) -> None:
    before = int(time.time()) * 1000
    text = made(tmp_path / "a.pem", days)
    end = certificate_end("a comment\n" + text)
    assert end is not None and before + days * DAY_MS <= end <= time.time() * 1000 + days * DAY_MS


def test_text_without_a_readable_certificate_has_no_end(tmp_path: Path) -> None:
    text = made(tmp_path / "a.pem", 1)
    head, body, *rest = text.splitlines()
    assert certificate_end("") is None
    assert certificate_end((tmp_path / "a.key").read_text(encoding="ascii")) is None
    assert certificate_end("\n".join([head, body, rest[-1]])) is None


def test_context_knows_the_end_of_a_renewed_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pem"
    made(path, 1)
    context = RenewedContext(lambda: client_context(True, str(path)), (str(path), str(path.with_suffix(".key"))))
    first = context.ends[str(path)]
    made(path, 9)
    assert context.look() and context.ends == {str(path): context.ends[str(path)]}
    assert context.ends[str(path)] > first + 7 * DAY_MS
