"""SSL contexts from PEM files, for the servers' ports and for connections to name servers.

Errors contain the keys of the servers' settings (Java's tls.server.* and tls.client.*, TlsSystemConfig and TlsHelper).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from io import FileIO
from pathlib import Path

from bolide.errors import ConfigError
from bolide.transport.certificates import certificate_end
from bolide.world.home import expanded


class RenewedContext:
    """An SSL context from files, recreated when one of them changes.

    `make` raises `ConfigError` if the files do not match; empty `paths` are ignored.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], paths: Iterable[str]) -> None:
        self._make = make
        self._paths = tuple(expanded(path) for path in paths if path)
        self._seen = self._marks()
        self.context = make()
        """The context for new connections. Open connections keep theirs."""
        self.ends = self._ends()
        """Expiry of the first certificate of each file, in ms since 1970, by path."""

    def look(self) -> bool:
        """Reload the files if one has changed. Return whether the context is new. Blocks on disk.

        Raises `ConfigError` if the files are invalid. The context is then unchanged, and the files are reloaded after
        their next change, because the second file of a pair may change shortly after the first.
        """
        marks = self._marks()
        if marks == self._seen:
            return False
        self._seen = marks
        self.context = self._make()
        self.ends = self._ends()
        return True

    def _ends(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for path in self._paths:
            try:
                with FileIO(path) as file:  # like ssl, from this machine's disk
                    end = certificate_end(file.readall().decode("ascii", "replace"))
            except OSError:
                continue
            if end is not None:
                found[str(path)] = end
        return found

    def _marks(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_mark(path) for path in self._paths)


def current_context(tls: RenewedContext | None) -> ssl.SSLContext | None:
    """Return the SSL context for a new connection, or None for plaintext."""
    return None if tls is None else tls.context


def _mark(path: Path) -> tuple[int, int, int] | None:
    """Return values that differ if a file's content has changed, or None if the file does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def client_context(
    auth_server: bool,
    trust_cert_path: str = "",
    cert_path: str = "",
    key_path: str = "",
    key_password: str = "",
    check_name: bool = False,
) -> ssl.SSLContext:
    """Return a client context for TLS 1.2 and 1.3. Raises `ConfigError` with the invalid key.

    If `auth_server` is False, any certificate is accepted, as by Java's clients by default. Otherwise it must be signed
    by an authority in `trust_cert_path` (a PEM file, or "" for this machine's authorities). The certificate's name is
    compared with the address only with `check_name` and `auth_server`: routes contain addresses, and Java does not
    compare them either.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    if not auth_server:
        context.verify_mode = ssl.CERT_NONE
    elif trust_cert_path:
        load_trust(context, "tlsClientTrustCertPath", trust_cert_path)
    else:
        context.load_default_certs()
    context.check_hostname = auth_server and check_name
    if cert_path or key_path:
        load_pair(context, "tlsClientCertPath", cert_path, "tlsClientKeyPath", key_path, key_password)
    return context


def server_context(
    cert_path: str, key_path: str, key_password: str, trust_cert_path: str, client_auth: str
) -> ssl.SSLContext:
    """Return a server context for TLS 1.2 and 1.3 from PEM files. Raises `ConfigError` with the invalid key.

    `client_auth`: a client certificate is not requested ("none"), "optional", or required ("require"). It must be
    signed by an authority in `trust_cert_path`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_pair(context, "tlsCertPath", cert_path, "tlsKeyPath", key_path, key_password)
    if client_auth != "none":
        if not trust_cert_path:
            raise ConfigError(f"tlsNeedClientAuth = {client_auth} needs tlsTrustCertPath: the authorities of clients")
        load_trust(context, "tlsTrustCertPath", trust_cert_path)
        context.verify_mode = ssl.CERT_REQUIRED if client_auth == "require" else ssl.CERT_OPTIONAL
    return context


def load_pair(
    context: ssl.SSLContext, cert_key: str, cert_path: str, key_key: str, key_path: str, password: str
) -> None:
    """Load a certificate and its private key, from the settings with these names. Raises `ConfigError`."""
    for key, path in ((cert_key, cert_path), (key_key, key_path)):
        if not path:
            raise ConfigError(f"{key} is missing: set both a certificate ({cert_key}) and its private key ({key_key})")
    try:
        # A callable, so that an encrypted key without a password fails instead of prompting at the terminal.
        context.load_cert_chain(pem_file(cert_key, cert_path), pem_file(key_key, key_path), lambda: password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError(
            f"{cert_key} = {cert_path!r} and {key_key} = {key_path!r} cannot be used: {error}; they must be a PEM "
            f"certificate and its private key, with its password when it is encrypted"
        ) from None


def load_trust(context: ssl.SSLContext, key: str, path: str) -> None:
    """Load the certificates of trusted authorities. Raises `ConfigError`."""
    try:
        context.load_verify_locations(pem_file(key, path))
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"{key} = {path!r} cannot be used: {error}") from None


def pem_file(key: str, path: str) -> str:
    """Return the path of an existing file. Raises `ConfigError`."""
    full = expanded(path)
    if not full.is_file():
        raise ConfigError(f"{key} = {path!r} is not a file: give the path of a PEM file")
    return str(full)
