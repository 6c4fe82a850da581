"""Rights of accounts without requests; `tests/access/test_plain_gate_decisions.py` tests those of requests."""

from __future__ import annotations

import pytest

from bolide.access.account_rights import AccountRights, NeedsAdmin
from bolide.access.plain_accounts import read_accounts
from bolide.access.rights import Denied, Principal
from bolide.remoting.request_access import PUB, SUB, UPDATE, Asked, ResourceType

FILE = b"""
accounts:
- accessKey: seller1
  secretKey: secret-1
  whiteRemoteAddress: 10.0.0.9
  topicPerms: [T=PUB]
- accessKey: manager
  secretKey: secret-2
  admin: true
"""
TO_T = Asked(ResourceType.TOPIC, "T", PUB)
FROM_T = Asked(ResourceType.TOPIC, "T", SUB)
CLUSTER = Asked(ResourceType.CLUSTER, "", UPDATE)


@pytest.fixture
def rights() -> AccountRights:
    accounts = read_accounts([("plain_acl.yml", FILE)])
    return AccountRights(lambda: accounts, strict=False)


def test_entries_decide(rights: AccountRights) -> None:
    seller = Principal("seller1", "10.0.0.1")
    rights.may(seller, [TO_T])
    with pytest.raises(Denied, match="No default permission for topic:T"):
        rights.may(seller, [TO_T, FROM_T])
    with pytest.raises(NeedsAdmin):
        rights.may(seller, [CLUSTER])


def test_admins_and_trusted_addresses_may_do_everything(rights: AccountRights) -> None:
    for principal in (Principal("manager", "10.0.0.1"), Principal("seller1", "10.0.0.9")):
        rights.may(principal, [TO_T, FROM_T, CLUSTER])


def test_unknown_accounts_have_no_rights(rights: AccountRights) -> None:
    with pytest.raises(Denied, match="No acl config for stranger"):
        rights.may(Principal("stranger", "10.0.0.9"), [])
