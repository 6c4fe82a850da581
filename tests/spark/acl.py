"""A broker with access control, and users with a few rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from bolide.client import Message
from bolide.testing.broker import Broker
from tests.client.patient_blocking import Admin, Producer

SETTINGS: Final[dict[str, Any]] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": '{"username":"root","password":"s3cret-of-root"}',
    "inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"s3cret-of-inner"}',
}
ROOT: Final = {"access_key": "root", "secret_key": "s3cret-of-root"}

Rights = Mapping[str, Sequence[str]]
"""Resource to actions."""


@contextmanager
def guarded(rights: Mapping[str, Rights], messages: int = 0, **more: Any) -> Iterator[Broker]:
    """A broker with these users and `more` settings, and a topic T of one queue with messages."""
    with Broker(**SETTINGS, **more) as broker:
        with Admin(broker.namesrv_addr, **ROOT) as admin:
            admin.create_topic("T", queues=1)
            for user, entries in rights.items():
                admin.create_user(user, f"s3cret-of-{user}")
                grant(admin, user, entries)
        if messages:
            with Producer("acl-tests", broker.namesrv_addr, **ROOT) as producer:
                for number in range(messages):
                    producer.send(Message("T", b"%d" % number))
        yield broker


def grant(admin: Admin, user: str, entries: Rights) -> None:
    """Give rights to a user, instead of earlier ones to the same resources."""
    for resource, actions in entries.items():
        admin.put_policy(user, resource, actions)


def options_of(broker: Broker, user: str) -> dict[str, str]:
    """Options of a source or sink for a user."""
    return {"namesrv": broker.namesrv_addr, "accessKey": user, "secretKey": f"s3cret-of-{user}"}
