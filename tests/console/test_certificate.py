"""The certificate of the console: reloaded when it changes, kept while its files are invalid."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from bolide.console.certificate import console_certificate, earliest_end, keep_current
from bolide.errors import ConfigError
from proof.kit.waiting import until
from tests.transport.certificates import Certificate, openssl


def make(folder: Path, days: int) -> tuple[Path, Path]:
    cert, key = folder / f"{days}.pem", folder / f"{days}-key.pem"
    words = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days {days} -subj /CN=x"
    openssl(*words.split(), "-keyout", str(key), "-out", str(cert))
    return cert, key


async def test_a_changed_certificate_is_reloaded_and_an_invalid_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    for made, place in zip(make(tmp_path, 3), (cert, key), strict=True):
        shutil.copy(made, place)
    tls = console_certificate(str(cert), str(key))
    context, end = tls.context, earliest_end(tls)
    assert end is not None
    with caplog.at_level(logging.INFO, "bolide.console"):
        keeping = asyncio.create_task(keep_current(tls, 0.01))
        cert.write_text("no certificate")
        await until(lambda: "keeping the old TLS files" in caplog.text)
        assert (tls.context, earliest_end(tls)) == (context, end)
        for made, place in zip(make(tmp_path, 30), (cert, key), strict=True):
            os.replace(made, place)
        await until(lambda: tls.context is not context)
        later = earliest_end(tls)
        assert later is not None and later - end > 26 * 86_400_000
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    own = Certificate(tmp_path)
    with pytest.raises(ConfigError, match="--certificate = .* and --key = .* cannot be used"):
        console_certificate(own.cert, own.locked_key)


def test_without_tls_nothing_ends() -> None:
    assert earliest_end(None) is None
