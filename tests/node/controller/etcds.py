"""A real etcd of one or more members on free ports."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from proof.kit.ports import reserve_port
from proof.kit.processes import ChildProcess
from proof.kit.waiting import wait_until
from tests.optional_programs import needed
from tests.transport.certificates import Certificate


class EtcdMember(ChildProcess):
    """One member; `start_again` begins it with the same data under the same addresses, and waits for nothing. With a
    `certificate` it shows it to clients, and takes only those that show it, too."""

    def __init__(
        self, home: Path, name: str, port: int, peers: str, peer: str, certificate: Certificate | None = None
    ) -> None:
        self.home, self.name, self.port = home, name, port
        self._words = (peers, peer, certificate)
        self.url = url = f"{'https' if certificate else 'http'}://127.0.0.1:{port}"
        self._tls = None
        command = [needed("etcd"), "--name", name, "--data-dir", str(home), "--listen-client-urls", url]
        if certificate:
            self._tls = ssl.create_default_context(cafile=certificate.cert)
            self._tls.load_cert_chain(certificate.cert, certificate.key)
            command += ["--cert-file", certificate.cert, "--key-file", certificate.key]
            command += ["--client-cert-auth", "--trusted-ca-file", certificate.cert]
        command += ["--advertise-client-urls", url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", peers, "--logger", "zap", "--log-level", "warn"]
        home.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(command, home.with_suffix(".out"))

    def healthy(self) -> bool:
        """Whether it answers, and knows a leader. Raises AssertionError if it has ended."""
        if not self.running:
            raise AssertionError(f"{self.name} ended:\n{self.output()[-4000:]}")
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5, context=self._tls) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def start_again(self) -> EtcdMember:
        return EtcdMember(self.home, self.name, self.port, *self._words)


def started(home: Path, members: int = 1, certificate: Certificate | None = None) -> list[EtcdMember]:
    """The members of a new cluster, which all answer: the first question of a test is no part of their start."""
    ports = [(reserve_port(), f"http://127.0.0.1:{reserve_port()}") for _ in range(members)]
    peers = ",".join(f"e{number}={peer}" for number, (_, peer) in enumerate(ports))
    with ExitStack() as undo:
        made = []
        for number, (port, peer) in enumerate(ports):
            made.append(EtcdMember(home / f"e{number}", f"e{number}", port, peers, peer, certificate))
            undo.callback(made[-1].kill)
        for member in made:
            wait_until(member.healthy, f"{member.name} to answer")
        undo.pop_all()
    return made


def store_of(members: list[EtcdMember]) -> str:
    """`controllerStore` for this cluster."""
    return "etcd:" + ",".join(member.url for member in members)
