"""Rights of users without requests; `tests/access/test_gate.py` tests those of requests."""

from __future__ import annotations

import pytest

from bolide.access.policies import AclInfo, Acls, EntryInfo, PolicyInfo, merged, policies_of
from bolide.access.rights import Denied, Principal
from bolide.access.user_rights import UserRights
from bolide.access.users import User, Users, UserType
from bolide.remoting.request_access import PUB, SUB, Asked, ResourceType

TO_T = Asked(ResourceType.TOPIC, "T", PUB)
FROM_T = Asked(ResourceType.TOPIC, "T", SUB)


@pytest.fixture
def rights() -> UserRights:
    users, acls = Users(), Acls()
    users.put(User("root", "rootpw", UserType.SUPER))
    users.put(User("alice", "alicepw"))
    info = AclInfo(None, [PolicyInfo(None, [EntryInfo("Topic:T", ["Pub"], ["10.0.0.1"], "Allow")])])
    acls.put("alice", merged({}, policies_of(info)))
    return UserRights(users, acls, "c", strict=False)


def test_policies_decide_by_name_and_address(rights: UserRights) -> None:
    rights.may(Principal("alice", "10.0.0.1"), [TO_T])
    with pytest.raises(Denied, match=r"no permission to access Topic:T from 10\.0\.0\.2"):
        rights.may(Principal("alice", "10.0.0.2"), [TO_T])


def test_every_permission_is_needed(rights: UserRights) -> None:
    with pytest.raises(Denied, match="no matched policies"):
        rights.may(Principal("alice", "10.0.0.1"), [TO_T, FROM_T])


def test_unknown_users_have_no_rights(rights: UserRights) -> None:
    stranger, root = Principal("stranger", "10.0.0.1"), Principal("root", "10.0.0.1")
    assert (rights.may_all(stranger), rights.may_all(root)) == (False, True)
    rights.may(root, [TO_T, FROM_T])
    with pytest.raises(Denied, match="User:stranger is not found"):
        rights.may(stranger, [])
