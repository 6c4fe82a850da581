"""A real etcd that takes only clients with a certificate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bolide.controller.consensus import StoreUnavailable
from bolide.controller.options import ControllerOptions
from tests.node.controller.etcd_stores import store
from tests.node.controller.etcds import EtcdMember, started
from tests.node.controller.kept import one_set
from tests.transport.certificates import Certificate, have_openssl

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not have_openssl(), reason="certificates are made with openssl")]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory, certificate: Certificate) -> Iterator[EtcdMember]:
    (member,) = started(tmp_path_factory.mktemp("etcd"), certificate=certificate)
    yield member
    member.kill()


async def test_a_controller_that_shows_its_certificate_leads_and_decides(
    etcd: EtcdMember, certificate: Certificate
) -> None:
    options = ControllerOptions(
        tls_client_trust_cert_path=certificate.cert,
        tls_client_cert_path=certificate.cert,
        tls_client_key_path=certificate.locked_key,
        tls_client_key_password="secret",
    )
    async with store([etcd], "g", options=options) as made:
        await made.lead()
        revision = await made.change(one_set(1), 0)
        assert (await made.load())["b"] == (one_set(1), revision)


@pytest.mark.parametrize("lacks", ["a certificate to show", "an authority to trust"])
async def test_without_a_certificate_nothing_is_decided(etcd: EtcdMember, certificate: Certificate, lacks: str) -> None:
    if lacks == "a certificate to show":
        options = ControllerOptions(tls_client_trust_cert_path=certificate.cert)
    else:
        options = ControllerOptions(tls_client_cert_path=certificate.cert, tls_client_key_path=certificate.key)
    async with store([etcd], "g", options=options) as made:
        with pytest.raises(StoreUnavailable, match="certificate"):
            await made.load()
