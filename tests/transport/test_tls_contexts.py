"""Contexts made of files: made again when a file changes, kept when the new files cannot be used."""

from __future__ import annotations

import os
import shutil
import ssl
from functools import partial
from pathlib import Path

import pytest

from bolide.errors import ConfigError
from bolide.transport.tls_contexts import RenewedContext, server_context
from tests.transport.certificates import Certificate, have_openssl

pytestmark = pytest.mark.skipif(not have_openssl(), reason="certificates are made with openssl")


def certificate(folder: Path) -> Certificate:
    folder.mkdir()
    return Certificate(folder)


def renewed(used: Certificate) -> RenewedContext:
    return RenewedContext(partial(server_context, used.cert, used.key, "", "", "none"), (used.cert, used.key, ""))


def serial(context: ssl.SSLContext, trust: str) -> str:
    """Serial number of the certificate a server with this context shows, as a client that trusts `trust` sees it."""
    client = ssl.create_default_context(cafile=trust)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        context.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = ends[0].getpeercert()
    assert shown is not None
    return str(shown["serialNumber"])


def test_the_next_connection_gets_the_new_certificate(tmp_path: Path) -> None:
    used, other = certificate(tmp_path / "used"), certificate(tmp_path / "other")
    source = renewed(used)
    assert source.look() is False
    before = serial(source.context, used.cert)
    # Renamed into place, as those who renew certificates do it.
    for name in ("cert.pem", "key.pem"):
        os.replace(tmp_path / "other" / name, tmp_path / "used" / name)
    assert source.look() is True
    assert serial(source.context, used.cert) != before
    assert source.look() is False
    assert not Path(other.cert).exists()


def test_unusable_certificate_keeps_the_old_and_is_reported_once(tmp_path: Path) -> None:
    used, other = certificate(tmp_path / "used"), certificate(tmp_path / "other")
    source = renewed(used)
    before = source.context
    os.replace(other.cert, used.cert)  # the key comes a moment later
    with pytest.raises(ConfigError, match="cannot be used"):
        source.look()
    assert source.context is before
    assert source.look() is False
    shutil.copyfile(other.key, used.key)
    assert source.look() is True
    assert source.context is not before


def test_a_file_that_is_gone_leaves_the_old(tmp_path: Path) -> None:
    used = certificate(tmp_path / "used")
    source = renewed(used)
    before = source.context
    os.unlink(used.cert)
    with pytest.raises(ConfigError, match="is not a file"):
        source.look()
    assert source.context is before
