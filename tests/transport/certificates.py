"""A self-signed certificate for 127.0.0.1, made with openssl; None where there is no openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


class Certificate:
    """PEM files of a certificate and its key, the key also encrypted with the password `secret`."""

    def __init__(self, folder: Path, days: int = 2) -> None:
        self.cert = str(folder / "cert.pem")
        self.key = str(folder / "key.pem")
        self.locked_key = str(folder / "locked.pem")
        words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=127.0.0.1"
        more = ("-days", str(days), "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.key, "-out", self.cert)
        openssl(*words.split(), *more)
        openssl("pkcs8", "-topk8", "-in", self.key, "-out", self.locked_key, "-passout", "pass:secret")


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def have_openssl() -> bool:
    return shutil.which("openssl") is not None
